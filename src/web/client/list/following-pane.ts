import { ONE_COLUMN } from '../one-column.ts';
import type { Viewer } from '../viewer.ts';

/** A key that is held down moves on before a message is there: it is opened once the keys rest. Milliseconds. */
const REST_MS = 120;

/** Opens messages of the list, and lets the reading pane follow what is selected by keys. */
export class FollowingPane {
  #opened: string | undefined;
  #moved = -Infinity;
  #timer: number | undefined;

  constructor(private readonly viewer: Viewer) {}

  /** Whether a message is the last one that was opened here, and not by a link or the way back. */
  hasOpened(id: string): boolean {
    return this.#opened === id;
  }

  /** @param replaces whether it takes the place of the message before in the history */
  open(id: string, address: string, replaces: boolean): void {
    clearTimeout(this.#timer);
    this.#opened = id;
    this.viewer.go(address, { replace: replaces });
  }

  /** @param isOpen whether a message is read already: the next one takes its place in the history */
  follow(id: string, address: string, isOpen: boolean): void {
    // Where list and message are one column, only a key that opens does that.
    if (!isOpen && matchMedia(ONE_COLUMN).matches) return;
    const now = performance.now();
    const isFast = now - this.#moved < REST_MS;
    this.#moved = now;
    clearTimeout(this.#timer);
    if (!isFast) {
      this.open(id, address, isOpen);
      return;
    }
    const here = this.#place();
    this.#timer = window.setTimeout(() => {
      // Meanwhile the way may have led elsewhere: back to the list alone, or to another one.
      if (this.#place() === here) this.open(id, address, isOpen);
    }, REST_MS);
  }

  /** The address without the row at the top of the list, which changes by itself. */
  #place(): string {
    const place = new URL(this.viewer.address);
    place.searchParams.delete('at');
    return place.href;
  }
}
