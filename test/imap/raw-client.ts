import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** What a server answered to one command. */
export interface Answer {
  /** The line that ends it, without the tag; empty if the connection ended instead. */
  readonly status: string;
  /** Everything before, as it came. */
  readonly untagged: string;
}

export interface Account {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
}

/**
 * An IMAP client that sends exactly what it is given, one command at a time, without TLS. It shows answers that client
 * libraries interpret.
 */
export class RawClient {
  readonly #socket: Socket;
  #received = '';
  #isEnded = false;
  #wake: () => void = () => {};
  #tag = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (bytes) => {
      this.#received += bytes.toString('latin1');
      this.#wake();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#isEnded = true;
      this.#wake();
    });
  }

  /** Connects, and returns the client with the greeting. */
  static async connect(
    host: string,
    port: number,
  ): Promise<{ readonly client: RawClient; readonly greeting: string }> {
    const socket = connect(port, host);
    const client = new RawClient(socket);
    await once(socket, 'connect');
    return { client, greeting: (await client.#line()) ?? '' };
  }

  /** @throws Error if the login is refused */
  static async login({ host, port, user, password }: Account): Promise<RawClient> {
    const { client } = await RawClient.connect(host, port);
    const initial = Buffer.from(`\0${user}\0${password}`).toString('base64');
    const { status } = await client.command('AUTHENTICATE PLAIN', initial);
    if (!status.startsWith('OK')) throw new Error(`login: ${status}`);
    return client;
  }

  /**
   * Sends a command, and returns its answer.
   *
   * @param continued sent when the server asks for more, with a line end
   */
  async command(text: string, continued?: string | Buffer): Promise<Answer> {
    const tag = this.send(text);
    return this.answer(tag, continued);
  }

  /** Sends a command without waiting, and returns its tag. */
  send(text: string): string {
    this.#tag += 1;
    const tag = `a${this.#tag}`;
    this.write(`${tag} ${text}\r\n`);
    return tag;
  }

  /** Sends bytes. */
  write(bytes: string | Buffer): void {
    this.#socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'utf8') : bytes);
  }

  /** Waits for the answer to a command that was sent. */
  async answer(tag: string, continued?: string | Buffer): Promise<Answer> {
    let untagged = '';
    for (;;) {
      const line = await this.#line();
      if (line === undefined) return { status: '', untagged };
      if (line.startsWith(`${tag} `)) return { status: line.slice(tag.length + 1), untagged };
      if (line.startsWith('+') && continued !== undefined) {
        this.write(continued);
        this.write('\r\n');
      } else untagged += `${line}\r\n`;
    }
  }

  /**
   * Appends a message.
   *
   * @param between what stands between folder and literal: flags, date
   */
  append(folder: string, message: string | Buffer, between = ''): Promise<Answer> {
    const bytes = typeof message === 'string' ? Buffer.from(message, 'utf8') : message;
    return this.command(`APPEND "${folder}" ${between}{${bytes.length}}`, bytes);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** The next line, without its end; undefined if the connection ended before. */
  async #line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#received.indexOf('\r\n');
      if (end >= 0) {
        const line = this.#received.slice(0, end);
        this.#received = this.#received.slice(end + 2);
        return line;
      }
      if (this.#isEnded) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
