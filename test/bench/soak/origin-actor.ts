import { hash } from 'node:crypto';
import { deliver } from '../../../src/sandbox/faults.ts';
import type { Random } from '../../../src/sandbox/generated-mail.ts';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import type { Folder, Mailbox } from '../../../src/sandbox/store.ts';

/** So many messages a folder keeps, so that the service holds ever the same. */
const MAX_MESSAGES = 150;
const FLAGS = ['\\Seen', '\\Flagged', '\\Answered', 'work'];

/** Everybody else who uses the mailboxes: mail arrives, is read, flagged, moved and deleted. */
export class Actor {
  readonly #sandbox: Sandbox;
  readonly #random: Random;
  changes = 0;

  constructor(sandbox: Sandbox, random: Random) {
    this.#sandbox = sandbox;
    this.#random = random;
  }

  /** Changes something. Returns the message that arrived, if it was that. */
  change(): { readonly mailbox: string; readonly uid: number } | null {
    const random = this.#random;
    const { store } = this.#sandbox.service;
    const mailboxes = [...store.mailboxes.values()];
    const mailbox = mailboxes[random.below(mailboxes.length)];
    if (mailbox === undefined) return null;
    this.changes += 1;
    const folders = [...mailbox.folders.values()];
    const folder = folders[random.below(folders.length)] ?? store.folderFor(mailbox, 'INBOX');
    const uid = this.#anyUid(folder);
    const act = random.unit();
    if (act < 0.45 || uid === null) return this.#arrive(mailbox);
    if (act < 0.65) {
      const flag = FLAGS[random.below(FLAGS.length)] ?? '\\Seen';
      const [add, remove] = random.chance(0.6) ? [[flag], []] : [[], [flag]];
      store.changeFlags(folder, uid, add, remove);
    } else if (act < 0.8) {
      const target = folders[random.below(folders.length)];
      if (target !== undefined && target !== folder) store.move(folder, uid, target);
    } else if (act < 0.998) {
      store.remove(folder, uid);
      // Nothing piles up.
      while (folder.count > MAX_MESSAGES) store.remove(folder, this.#anyUid(folder) ?? 0);
    } else {
      store.renumber(folder, 1);
    }
    return null;
  }

  /** Hash and flags of every message, by mailbox, folder and uid. */
  everything(): Map<string, string> {
    const { store } = this.#sandbox.service;
    const all = new Map<string, string>();
    for (const mailbox of store.mailboxes.values()) {
      for (const folder of mailbox.folders.values()) {
        for (const { uid, source, flags } of folder.entries()) {
          const bytes = hash('sha256', store.sources.read(source));
          all.set(`${mailbox.address}/${folder.path}/${uid}`, [bytes, ...flags].join(' '));
        }
      }
    }
    return all;
  }

  #arrive(mailbox: Mailbox): { readonly mailbox: string; readonly uid: number } {
    const { service } = this.#sandbox;
    const inbox = service.store.folderFor(mailbox, 'INBOX');
    const number = this.#random.below(2 ** 40);
    const size = this.#random.chance(0.02) ? 400_000 : 200 + this.#random.below(4_000);
    const text = this.#random
      .bytes(Math.ceil(size / 2))
      .toString('hex')
      .replaceAll(/(.{70})/g, '$1\r\n');
    const head = `From: a${number % 50}@example.net\r\nSubject: soak ${number}\r\nMessage-ID: <${number}@soak>\r\n\r\n`;
    const uid = deliver(service, mailbox, inbox, Buffer.from(`${head}${text}\r\n`));
    while (inbox.count > MAX_MESSAGES) {
      const old = inbox.between(1, uid - 1, 0, 1)[0]?.uid;
      if (old === undefined || !service.store.remove(inbox, old)) break;
    }
    return { mailbox: mailbox.resourceId, uid };
  }

  #anyUid(folder: Folder): number | null {
    const count = folder.count;
    if (count === 0) return null;
    return folder.between(1, Number.MAX_SAFE_INTEGER, this.#random.below(count), 1)[0]?.uid ?? null;
  }
}
