// The pad to draw on: by mouse, pen or finger, and by the keyboard.

/** Steps of an arrow key, in parts of the pad's width. */
const STEP = 0.04;

/**
 * A canvas that collects strokes: lists of points from 0 to 1. Calls `changed(strokes)` after each change. On the
 * keyboard the arrows move a pen, the space bar lowers and raises it, and Escape clears.
 */
export class Pad {
  #canvas;
  #changed;
  #strokes = [];
  #drawing = false;
  #pen = { x: 0.5, y: 0.2, isDown: false, isShown: false };

  constructor(canvas, changed) {
    this.#canvas = canvas;
    this.#changed = changed;
    canvas.addEventListener('pointerdown', (event) => this.#begin(event));
    canvas.addEventListener('pointermove', (event) => this.#move(event));
    for (const name of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(name, () => (this.#drawing = false));
    }
    canvas.addEventListener('keydown', (event) => this.#key(event));
    canvas.addEventListener('blur', () => this.#show({ isShown: false, isDown: false }));
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  clear() {
    this.#strokes = [];
    this.#drawing = false;
    this.#pen.isDown = false;
    this.#update();
  }

  undo() {
    this.#strokes.pop();
    this.#drawing = false;
    this.#pen.isDown = false;
    this.#update();
  }

  /** Replaces all strokes. */
  set(strokes) {
    this.#strokes = strokes;
    this.#update();
  }

  #update() {
    this.paint();
    this.#changed(this.#strokes);
  }

  #point(event) {
    const { left, top, width, height } = this.#canvas.getBoundingClientRect();
    return [(event.clientX - left) / width, (event.clientY - top) / height];
  }

  #begin(event) {
    if (event.button !== 0) return;
    // A pointer that a script has made cannot be captured.
    try {
      this.#canvas.setPointerCapture(event.pointerId);
    } catch {}
    this.#drawing = true;
    this.#pen.isDown = false;
    this.#strokes.push([this.#point(event)]);
    this.#update();
  }

  #move(event) {
    if (!this.#drawing) return;
    // All positions since the last frame, where the browser has them.
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) this.#strokes.at(-1).push(this.#point(one));
    this.#update();
  }

  #key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (way) {
      const inside = (value) => Math.min(Math.max(value, 0.05), 0.95);
      const [x, y] = [inside(this.#pen.x + STEP * way[0]), inside(this.#pen.y + STEP * way[1])];
      if (this.#pen.isDown) this.#strokes.at(-1).push([x, y]);
      this.#show({ x, y });
      if (this.#pen.isDown) this.#changed(this.#strokes);
    } else if (event.key === ' ') {
      if (!this.#pen.isDown) this.#strokes.push([[this.#pen.x, this.#pen.y]]);
      this.#show({ isDown: !this.#pen.isDown });
      this.#changed(this.#strokes);
    } else if (event.key === 'Escape') {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
  }

  #show(pen) {
    Object.assign(this.#pen, { isShown: true }, pen);
    this.paint();
  }

  paint() {
    const canvas = this.#canvas;
    const size = Math.round(canvas.clientWidth * devicePixelRatio);
    if (size === 0) return;
    if (canvas.width !== size) canvas.width = canvas.height = size;
    const style = getComputedStyle(canvas);
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, size, size);
    context.lineWidth = size * 0.06;
    context.lineCap = context.lineJoin = 'round';
    context.strokeStyle = style.getPropertyValue('color');
    for (const stroke of this.#strokes) {
      context.beginPath();
      stroke.forEach(([x, y], at) => context[at ? 'lineTo' : 'moveTo'](x * size, y * size));
      if (stroke.length === 1) context.lineTo(stroke[0][0] * size, stroke[0][1] * size);
      context.stroke();
    }
    const { x, y, isDown, isShown } = this.#pen;
    if (!isShown) return;
    context.lineWidth = size * 0.01;
    context.strokeStyle = style.getPropertyValue('outline-color');
    context.beginPath();
    context.arc(x * size, y * size, size * (isDown ? 0.035 : 0.05), 0, 2 * Math.PI);
    context.stroke();
  }
}
