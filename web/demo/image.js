// Doubles an image by a network, and shows it before and after with a divider.

import { count, seconds } from './format.js';

/** The side of the image that the network takes. */
const SIDE = 128;
const NETWORK = new URL('doubled_image.safetensors', import.meta.url);

/** Planes of red, green and blue, from 0 to 255, of pixels in RGBA. */
function planes({ data }) {
  const pixels = data.length / 4;
  const image = new Float32Array(3 * pixels);
  for (let at = 0; at < 3 * pixels; at += 1) image[at] = data[4 * (at % pixels) + Math.floor(at / pixels)];
  return image;
}

/** Pixels in RGBA of planes; the reverse of `planes`. */
function picture(image, side) {
  const pixels = side * side;
  const made = new ImageData(side, side);
  made.data.fill(255);
  for (let at = 0; at < 3 * pixels; at += 1) {
    made.data[4 * (at % pixels) + Math.floor(at / pixels)] = Math.round(image[at]);
  }
  return made;
}

/** The image, its divider and its buttons. The network is loaded once it is wanted. */
export class ImageView {
  #page;
  #program;
  #load;

  /** `load(url)` gives the program of a file on the present device. */
  constructor(page, load) {
    this.#page = page;
    this.#load = load;
    const divider = this.#find('#divider');
    divider.addEventListener('input', () => {
      this.#find('#compare').style.setProperty('--at', `${divider.value}%`);
    });
    this.#find('#image-file').addEventListener('change', ({ target }) => {
      if (target.files.length) this.#open(target.files[0]);
    });
    this.#open(this.#find('#image-example').href);
  }

  /** Frees the program, whose device is about to be freed. */
  close() {
    this.#program?.free();
    this.#program = undefined;
  }

  #find(selector) {
    return this.#page.querySelector(selector);
  }

  #say(text) {
    this.#find('#image-result').textContent = text;
  }

  get #before() {
    return this.#find('#before').getContext('2d', { willReadFrequently: true });
  }

  /** Shows the middle square of an image: its file, or its address. */
  async #open(source) {
    try {
      const blob = source instanceof Blob ? source : await (await fetch(source)).blob();
      const image = await createImageBitmap(blob);
      const side = Math.min(image.width, image.height);
      const [left, top] = [(image.width - side) / 2, (image.height - side) / 2];
      this.#before.imageSmoothingQuality = 'high';
      this.#before.clearRect(0, 0, SIDE, SIDE);
      this.#before.drawImage(image, left, top, side, side, 0, 0, SIDE, SIDE);
      image.close();
      this.#find('#compare').classList.remove('doubled');
      this.#say('');
    } catch {
      this.#say('This browser cannot read that file as an image.');
    }
  }

  /** Doubles the image that is shown. */
  async double() {
    this.#say('Doubling…');
    // The text is painted before a run on the CPU holds up the page.
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    this.#program ??= await this.#load(NETWORK);
    const image = planes(this.#before.getImageData(0, 0, SIDE, SIDE));
    const begin = performance.now();
    const { doubled } = await this.#program.run({ image });
    const time = (performance.now() - begin) / 1000;
    this.#find('#after').getContext('2d').putImageData(picture(doubled, 2 * SIDE), 0, 0);
    this.#find('#compare').classList.add('doubled');
    const plan = this.#program.plan();
    const { kernels, backend } = plan;
    plan.free();
    this.#say(`Doubled in ${seconds(time)}: one trip with ${count(kernels.length, 'kernel')} on the ${backend.toUpperCase()}.`);
  }
}
