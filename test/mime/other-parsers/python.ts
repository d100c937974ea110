import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ReadLeaf } from './compare.ts';

/** Python's email package, in one process that answers message after message. */
export class PythonEmail {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #answers: AsyncIterator<string>;

  constructor() {
    const script = fileURLToPath(new URL('read-mail.py', import.meta.url));
    this.#process = spawn('python3', ['-W', 'ignore', script]);
    this.#answers = createInterface(this.#process.stdout)[Symbol.asyncIterator]();
  }

  /** Returns the leaves of a message; null where Python raises an exception. */
  async read(source: Buffer): Promise<readonly ReadLeaf[] | null> {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(source.length);
    this.#process.stdin.write(Buffer.concat([length, source]));
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error('Python has ended');
    return JSON.parse(value);
  }

  end(): void {
    this.#process.stdin.end();
  }
}
