import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { MailServer } from './server.ts';

/** Arguments of a method of imaplib. */
type Argument = string | number | null | { readonly bytes: string };

/** Another client of the same account: Python's imaplib, in a process of its own. */
export class OutsideClient {
  readonly #python: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;
  readonly #answers: AsyncIterator<string>;
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    const script = fileURLToPath(new URL('outside-client.py', import.meta.url));
    this.#python = spawn('python3', [script], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#python.stdout });
    this.#answers = this.#lines[Symbol.asyncIterator]();
  }

  async signIn({ host, port, password }: MailServer, user: string): Promise<void> {
    const status = await this.call('sign_in', host, port, user, password);
    if (status !== 'OK') throw new Error(`${user}: ${status}`);
  }

  /** Calls a method of imaplib, after those called before. Returns OK, NO or BAD. */
  call(method: string, ...args: readonly Argument[]): Promise<string> {
    const answer = this.#last.then(async () => {
      this.#python.stdin.write(`${JSON.stringify([method, ...args])}\n`);
      const { value, done } = await this.#answers.next();
      if (done === true) throw new Error(`${method}: imaplib's process has ended`);
      return JSON.parse(value) as string;
    });
    this.#last = answer.catch(() => {});
    return answer;
  }

  stop(): void {
    this.#lines.close();
    this.#python.kill();
  }
}
