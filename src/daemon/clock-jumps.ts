/** The two clocks differ by more than this when the machine slept, or somebody set the time. */
const JUMP_MS = 60_000;

/** Compares the wall clock with one that never goes back, and stands still while the machine sleeps. */
export class ClockJumps {
  #seen: { readonly wall: number; readonly monotonic: number };

  constructor(wall: number, monotonic: number) {
    this.#seen = { wall, monotonic };
  }

  /** By how many milliseconds the wall clock has jumped since the last look; null where it has not. */
  look(wall: number, monotonic: number): number | null {
    const jumped = wall - this.#seen.wall - (monotonic - this.#seen.monotonic);
    this.#seen = { wall, monotonic };
    return Math.abs(jumped) < JUMP_MS ? null : jumped;
  }
}
