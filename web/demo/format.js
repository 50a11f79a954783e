// Numbers as text.

/** Seconds with a unit, in three digits. */
export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (value === 0) return '0 s';
  const [size, unit] = value >= 1 ? [1, 's'] : value >= 1e-3 ? [1e-3, 'ms'] : [1e-6, 'µs'];
  return `${digits(value / size)} ${unit}`;
}

export function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A whole number, its thousands apart. */
export const whole = (number) => number.toLocaleString('en').replaceAll(',', '\u00a0');

export const count = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;

/** An element with attributes and children. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
