/** New commits are passed on this often at most: during a first sync there is one every few seconds. Milliseconds. */
const PAUSE_MS = 2_000;
/** A stream that the server refused is opened again after so long. Milliseconds. */
const REFUSED_MS = 30_000;

/**
 * Hears of new commits of the archive while the window is in view: a browser opens few connections to one server, and
 * windows behind others must not keep them.
 */
export class ArchiveEvents {
  #source: EventSource | undefined;
  #retry: number | undefined;
  #pause: number | undefined;
  /** What came during a pause. */
  #latest: number | undefined;

  constructor(private readonly onCommit: (commit: number) => void) {}

  start(): void {
    document.addEventListener('visibilitychange', () => this.#follow());
    addEventListener('pagehide', () => this.#close());
    addEventListener('pageshow', () => this.#follow());
    this.#follow();
  }

  #follow(): void {
    if (document.visibilityState === 'hidden') this.#close();
    else if (this.#source === undefined) this.#open();
  }

  #open(): void {
    clearTimeout(this.#retry);
    const source = new EventSource('/api/events');
    this.#source = source;
    source.addEventListener('commit', ({ data }) => this.#heard(Number(data)));
    source.addEventListener('error', () => {
      // A stream that breaks is opened again by the browser; one that was refused is not.
      if (source.readyState !== EventSource.CLOSED || this.#source !== source) return;
      this.#close();
      this.#retry = window.setTimeout(() => this.#follow(), REFUSED_MS);
    });
  }

  #close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
  }

  #heard(commit: number): void {
    if (this.#pause !== undefined) {
      this.#latest = commit;
      return;
    }
    this.onCommit(commit);
    this.#pause = window.setTimeout(() => {
      this.#pause = undefined;
      const latest = this.#latest;
      this.#latest = undefined;
      if (latest !== undefined) this.#heard(latest);
    }, PAUSE_MS);
  }
}
