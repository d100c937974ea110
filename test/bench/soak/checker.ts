import { Pool } from 'undici';
import { z } from 'zod';
import type { Hello } from './child.ts';
import type { Ledger } from './ledger.ts';
import { placeOf } from './reads.ts';
import { STOCK_FOLDER, STOCK_MESSAGES } from './stock.ts';

const message = z.object({
  uid: z.number(),
  subject: z.string().nullable(),
  flags: z.array(z.string()),
});
const messages = z.object({ data: z.array(message), pagination: z.object({ total: z.number() }) });
const folders = z.object({ data: z.array(z.object({ path: z.string() })) });

interface Found {
  readonly uid: number;
  readonly id: string;
}

const MAX_UIDS = 100;

/** Looks whether what the ledger says is there, and clears it away, so that the service holds ever the same. */
export class Checker {
  readonly #pool: Pool;
  readonly #m: string;
  readonly #headers: Record<string, string>;
  readonly #ledger: Ledger;
  /** By folder: the first uid that can be the soak's own. */
  readonly #from: ReadonlyMap<string, number>;
  readonly problems: string[] = [];

  /** Notes what is there before the writers begin. */
  static async open(hello: Hello, ledger: Ledger): Promise<Checker> {
    const newest = new Map<string, number>();
    const checker = new Checker(hello, ledger, newest);
    for (const folder of ['INBOX', 'INBOX.Sent', 'INBOX.Trash']) {
      const path = `${checker.#m}/folders/${folder}/messages?perPage=1`;
      const { data } = messages.parse(await checker.#call('GET', path));
      newest.set(folder, (data[0]?.uid ?? 0) + 1);
    }
    await checker.#call('DELETE', `${checker.#m}/folders/INBOX.Trash/messages`);
    return checker;
  }

  private constructor(hello: Hello, ledger: Ledger, from: ReadonlyMap<string, number>) {
    this.#from = from;
    this.#pool = new Pool(hello.url, { connections: 2 });
    const { m, headers } = placeOf(hello);
    this.#m = m;
    this.#headers = headers;
    this.#ledger = ledger;
  }

  /** Every acknowledged mail is in INBOX and in INBOX.Sent, once; then it is moved, deleted and forgotten. */
  async checkMail(): Promise<void> {
    // Taken first: what is acknowledged meanwhile is looked at next time.
    const expected = this.#ledger.mail.mustBeThere();
    const inbox = await this.#mailIn('INBOX');
    const sent = await this.#mailIn('INBOX.Sent');
    this.#compare('INBOX', expected, inbox);
    this.#compare('INBOX.Sent', expected, sent);
    const done = ({ id }: Found) => expected.has(id);
    await this.#remove('INBOX.Sent', sent.filter(done));
    await this.#move(inbox.filter(done));
    this.#compare('INBOX.Trash', expected, await this.#mailIn('INBOX.Trash'));
    await this.#call('DELETE', `${this.#m}/folders/INBOX.Trash/messages`);
    const left = await this.#mailIn('INBOX.Trash');
    if (left.length > 0) this.#say(`${left.length} messages are left in an emptied folder`);
    for (const id of expected) this.#ledger.mail.settle(id);
  }

  /** Folders and flags are as they were acknowledged last. Only at rest. */
  async checkRest(): Promise<void> {
    const paths = new Set<string>();
    for (let page = 1; ; page += 1) {
      const body = await this.#call('GET', `${this.#m}/folders?perPage=100&page=${page}`);
      const { data } = folders.parse(body);
      for (const { path } of data) paths.add(path);
      if (data.length < 100) break;
    }
    const made = [...paths].filter((path) => path.startsWith('INBOX.soak-'));
    this.#compare(
      'the folders',
      this.#ledger.folders.mustBeThere(),
      made.map((id) => ({ id, uid: 0 })),
    );
    for (let uid = 1; uid <= STOCK_MESSAGES; uid += 1) {
      const body = await this.#call('GET', `${this.#m}/folders/${STOCK_FOLDER}/messages/${uid}`);
      const { flags } = z.object({ data: message }).parse(body).data;
      const found = flags.filter((flag) => flag !== '\\Seen').join(' ');
      if (!this.#ledger.flags.allowed(uid).includes(found)) {
        this.#say(`message ${uid} has the flags "${found}"`);
      }
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  #compare(where: string, expected: ReadonlySet<string>, found: readonly Found[]): void {
    const ids = new Set(found.map(({ id }) => id));
    if (ids.size !== found.length) this.#say(`${found.length - ids.size} doubles in ${where}`);
    const lost = [...expected].filter((id) => !ids.has(id));
    if (lost.length > 0) this.#say(`${lost.length} lost in ${where}, such as ${lost[0]}`);
    const { mail, folders: made } = this.#ledger;
    const strange = [...ids].filter((id) => !mail.mayBeThere(id) && !made.mayBeThere(id));
    if (strange.length > 0)
      this.#say(`${strange.length} strange in ${where}, such as ${strange[0]}`);
  }

  #say(problem: string): void {
    this.problems.push(problem);
  }

  /** The soak's own mail in a folder, walked by uid, so that arrivals shift nothing out of sight. */
  async #mailIn(folder: string): Promise<Found[]> {
    const found: Found[] = [];
    for (let from = this.#from.get(folder) ?? 1; ; ) {
      const path = `${this.#m}/folders/${folder}/messages/search?sort=uid&perPage=100`;
      const { data } = messages.parse(await this.#call('POST', path, { uid: `${from}:*` }));
      const fresh = data.filter(({ uid }) => uid >= from);
      found.push(...fresh.map(({ uid, subject }) => ({ uid, id: subject ?? '' })));
      const last = fresh.at(-1);
      if (last === undefined || fresh.length < 100) return found;
      from = last.uid + 1;
    }
  }

  async #remove(folder: string, found: readonly Found[]): Promise<void> {
    for (const uids of inPieces(found)) {
      await this.#call('POST', `${this.#m}/folders/${folder}/messages/delete`, { uids });
    }
  }

  async #move(found: readonly Found[]): Promise<void> {
    for (const uids of inPieces(found)) {
      const body = { uids, targetFolder: 'INBOX.Trash' };
      await this.#call('POST', `${this.#m}/folders/INBOX/messages/move`, body);
    }
  }

  async #call(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<unknown> {
    const answer = await this.#pool.request({
      method,
      path,
      headers: this.#headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300)
      throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }
}

function inPieces(found: readonly Found[]): number[][] {
  const pieces: number[][] = [];
  for (let at = 0; at < found.length; at += MAX_UIDS) {
    pieces.push(found.slice(at, at + MAX_UIDS).map(({ uid }) => uid));
  }
  return pieces;
}
