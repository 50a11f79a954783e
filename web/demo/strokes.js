// Pixels of strokes: a bitmap of 32 × 32 points of which each pixel is the mean of 4 × 4, as in the data that the
// network learned from. `picture` in train.py does the same.

const SIDE = 8;
const GRID = 32;
const HEIGHT = 27;
const WIDTH = 19;
/** Half of the width of a line, in points of the bitmap. */
const RADIUS = 2.4;

/**
 * The 64 pixels of `strokes`, lists of points [x, y], from 0 (white) to 1 (black). The strokes are moved and scaled to
 * fill the picture. `undefined` if there are no strokes.
 */
export function pixels(strokes) {
  const points = strokes.flat();
  if (points.length === 0) return undefined;
  const range = (axis) => {
    const all = points.map((point) => point[axis]);
    return [Math.min(...all), Math.max(...all)];
  };
  const [[left, right], [top, bottom]] = [range(0), range(1)];
  const scale = Math.min(WIDTH / Math.max(right - left, 1e-6), HEIGHT / Math.max(bottom - top, 1e-6));
  // A point alone has no size to fill the picture with.
  const factor = right - left + bottom - top < 1e-6 ? 0 : scale;
  const place = ([x, y]) => [
    (x - (left + right) / 2) * factor + GRID / 2,
    (y - (top + bottom) / 2) * factor + GRID / 2,
  ];
  const nearest = new Float64Array(GRID * GRID).fill(Infinity);
  for (const stroke of strokes) {
    const placed = stroke.map(place);
    for (let at = 0; at < Math.max(placed.length - 1, 1); at += 1) {
      addLine(nearest, placed[at], placed[at + 1] ?? placed[at]);
    }
  }
  const picture = new Float32Array(SIDE * SIDE);
  nearest.forEach((squared, at) => {
    const ink = Math.min(Math.max(RADIUS - Math.sqrt(squared) + 0.5, 0), 1);
    const [row, column] = [Math.floor(at / GRID), at % GRID];
    picture[Math.floor(row / 4) * SIDE + Math.floor(column / 4)] += ink / 16;
  });
  return picture;
}

/** Lowers the squared distance of each point of the bitmap to that from a line. */
function addLine(nearest, [x0, y0], [x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = Math.max(dx * dx + dy * dy, 1e-12);
  const reach = RADIUS + 1;
  const from = (a, b) => Math.max(Math.floor(Math.min(a, b) - reach), 0);
  const to = (a, b) => Math.min(Math.ceil(Math.max(a, b) + reach), GRID);
  for (let row = from(y0, y1); row < to(y0, y1); row += 1) {
    for (let column = from(x0, x1); column < to(x0, x1); column += 1) {
      const [x, y] = [column + 0.5 - x0, row + 0.5 - y0];
      const along = Math.min(Math.max((x * dx + y * dy) / length, 0), 1);
      const squared = (x - along * dx) ** 2 + (y - along * dy) ** 2;
      const at = row * GRID + column;
      if (squared < nearest[at]) nearest[at] = squared;
    }
  }
}
