// A plot of two lines as SVG.

import { seconds } from './format.js';

const WIDTH = 560;
const HEIGHT = 240;
const [LEFT, RIGHT, TOP, BOTTOM] = [80, 16, 14, 34];

/** The next number of the form 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((one) => one * power >= value * 0.999999) * power;
}

/** Draws `lines`: {kind, name, points: [[length, seconds]]} over lengths up to `most`. */
export function plot(place, lines, most) {
  const longest = Math.max(1e-9, ...lines.flatMap(({ points }) => points.map((point) => point[1])));
  const step = roundUp(longest / 4);
  const top = step * Math.ceil(longest / step);
  const x = (length) => LEFT + ((WIDTH - LEFT - RIGHT) * length) / most;
  const y = (time) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * time) / top;
  const parts = [];
  for (let time = 0; time <= top * 1.0001; time += step) {
    parts.push(`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(time)}" y2="${y(time)}"/>`);
    const text = time === 0 ? '0' : seconds(time);
    parts.push(`<text x="${LEFT - 8}" y="${y(time) + 4}" text-anchor="end">${text}</text>`);
  }
  const marks = most <= 4 ? [1, 2, 3, 4].filter((mark) => mark <= most) : [1, 2, 3, 4].map((part) => Math.round((most * part) / 4));
  for (const mark of marks) {
    parts.push(`<text x="${x(mark)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${mark}</text>`);
  }
  parts.push(`<text x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 3}" text-anchor="middle">operations in the chain</text>`);
  for (const { kind, name, points } of lines) {
    if (points.length === 0) continue;
    const path = points.map(([length, time]) => `${x(length)},${y(time)}`).join(' ');
    const dots = points.map(([length, time]) => `<circle cx="${x(length)}" cy="${y(time)}" r="3.5"/>`).join('');
    const [last, time] = points.at(-1);
    const end = x(last) > WIDTH / 2 ? 'end' : 'start';
    parts.push(`<g class="${kind}"><polyline points="${path}"/>${dots}
      <text class="name" x="${x(last)}" y="${Math.max(y(time) - 9, 11)}" text-anchor="${end}">${name}</text></g>`);
  }
  const all = lines.map(({ name, points }) => `${name} ${seconds(points.at(-1)?.[1])}`).join(', ');
  place.innerHTML = `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Time by length of the chain: ${all}">${parts.join('')}</svg>`;
}
