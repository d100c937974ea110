import fc from 'fast-check';
import type { Fact } from '../../src/archive/format.ts';
import { type FlagSet, type FolderKey, flagSet, type Place } from '../../src/core/types.ts';
import type { PlaceLine } from '../../src/mail/identity.ts';
import { appeared, folder, History, HOST, listing, mailbox, place, sha256 } from './history.ts';

export const FOLDERS: readonly FolderKey[] = [
  { host: HOST, mailbox: 'AC1', folder: 'INBOX' },
  { host: HOST, mailbox: 'AC1', folder: 'Archive' },
  { host: HOST, mailbox: 'AC2', folder: 'INBOX' },
];
const FLAGS: readonly FlagSet[] = [[], ['\\Seen'], ['\\Flagged', '\\Seen'], ['\\Seen', 'work']];

/** One step of a random history; numbers choose among what is possible when it is played. */
export interface Step {
  readonly act:
    | 'arrive'
    | 'copy'
    | 'flag'
    | 'end'
    | 'reopen'
    | 'move'
    | 'hold'
    | 'quarantine'
    | 'release'
    | 'rename'
    | 'purge'
    | 'commit';
  readonly a: number;
  readonly b: number;
}

export const ACTS: readonly Step['act'][] = [
  ...(['arrive', 'arrive', 'arrive', 'copy', 'flag', 'flag', 'end', 'reopen', 'move'] as const),
  ...(['hold', 'quarantine', 'release', 'commit', 'commit', 'commit'] as const),
];
export const steps = (acts: readonly Step['act'][], minLength = 5) =>
  fc.array(fc.record({ act: fc.constantFrom(...acts), a: fc.nat(1000), b: fc.nat(1000) }), {
    minLength,
    maxLength: 60,
  });

interface Stood {
  readonly place: Place;
  readonly message: string;
  flags: FlagSet;
  open: boolean;
}

/** A simple mailbox that plays steps, gives the facts of them, and knows what a list must show. */
export class Model {
  readonly history = new History();
  readonly places: Stood[] = [];
  readonly quarantined: Place[] = [];
  readonly paths = FOLDERS.map((key) => key.folder);
  #facts: Fact[] = [
    mailbox({ ...keyOf(0, 'INBOX') }, 'one@example.net'),
    mailbox({ ...keyOf(2, 'INBOX') }, 'two@example.net'),
    ...FOLDERS.map((key) => folder(key)),
  ];
  #uid = 0;
  #names = 0;

  play({ act, a, b }: Step): boolean {
    const open = this.places.filter((stood) => stood.open);
    const gone = this.places.filter((stood) => !stood.open);
    const chosen = open[a % Math.max(1, open.length)];
    switch (act) {
      case 'arrive':
        this.#arrive(a % 3, `message ${this.#names++}`, FLAGS[b % 4] ?? []);
        break;
      case 'copy':
        if (chosen !== undefined) this.#arrive(b % 3, chosen.message, chosen.flags);
        break;
      case 'flag': {
        const flags = FLAGS[b % 4] ?? [];
        if (chosen === undefined) break;
        chosen.flags = flags;
        this.#facts.push({ fact: 'flags', ...this.#at(chosen.place), flags });
        break;
      }
      case 'end':
        if (chosen !== undefined) this.#end(chosen);
        break;
      case 'reopen': {
        const back = gone[a % Math.max(1, gone.length)];
        if (back === undefined) break;
        back.open = true;
        back.flags = FLAGS[b % 4] ?? [];
        const at = this.#at(back.place);
        this.#facts.push({ fact: 'reopened', ...at, flags: back.flags, reason: 'answers' });
        break;
      }
      case 'move':
        if (chosen === undefined) break;
        this.#end(chosen);
        this.#arrive(b % 3, chosen.message, chosen.flags, this.#at(chosen.place));
        break;
      case 'hold':
        if (chosen !== undefined)
          this.#facts.push({ fact: 'held', ...this.#at(chosen.place), held: b % 2 === 0 });
        break;
      case 'quarantine': {
        const at = place(keyOf(a % 3), ++this.#uid);
        this.quarantined.push(at);
        this.#facts.push({
          fact: 'quarantined',
          ...this.#at(at),
          listing: listing(at.uid),
          reason: 'short',
          detail: '',
        });
        break;
      }
      case 'release': {
        const [at] = this.quarantined.splice(0, 1);
        if (at === undefined) break;
        this.#facts.push({ fact: 'released', ...this.#at(at), reason: 'ended' });
        break;
      }
      case 'rename': {
        const index = a % 3;
        const key = keyOf(index, this.paths[index]);
        const to = `Renamed ${this.#names++}`;
        this.#facts.push({ fact: 'folder-renamed', ...key, to });
        this.paths[index] = to;
        break;
      }
      case 'purge': {
        const message = this.places[a % Math.max(1, this.places.length)]?.message;
        if (message === undefined) break;
        const still = this.places.filter((stood) => stood.message === message && stood.open);
        this.#facts.push({
          fact: 'purged',
          message: sha256(message),
          reason: 'forgotten',
          places: still.map((stood) => this.#at(stood.place)),
        });
        for (const stood of this.places.filter((one) => one.message === message))
          this.places.splice(this.places.indexOf(stood), 1);
        break;
      }
      case 'commit':
        if (this.#facts.length === 0) return false;
        this.history.commit(this.#facts);
        this.#facts = [];
        return true;
    }
    return false;
  }

  /** What a list of current places must show, in no order. */
  current(): string[] {
    return [
      ...this.places
        .filter((stood) => stood.open)
        .map((stood) => this.#shown(stood.place, sha256(stood.message), stood.flags)),
      ...this.quarantined.map((at) => this.#shown(at, null, [])),
    ].sort();
  }

  ended(): string[] {
    return this.places
      .filter((stood) => !stood.open)
      .map((stood) => this.#shown(stood.place, sha256(stood.message), stood.flags))
      .sort();
  }

  #shown(at: Place, id: string | null, flags: FlagSet): string {
    const { folder: path } = this.#at(at);
    return shown(addressOf(at.mailbox), path, at.uid, id, flags);
  }

  #at(at: Place): Place {
    const index = FOLDERS.findIndex(
      (key) => key.mailbox === at.mailbox && key.folder === at.folder,
    );
    return { ...at, folder: this.paths[index] ?? at.folder };
  }

  #arrive(index: number, message: string, flags: FlagSet, assumedFrom?: Place): void {
    const at = place(keyOf(index), ++this.#uid);
    this.places.push({ place: at, message, flags, open: true });
    const docid = (20_000 + (Number.parseInt(sha256(message).slice(0, 6), 16) % 5000)) * 64;
    this.#facts.push(
      appeared(this.#at(at), message, {
        listing: { flags: flagSet(flags) },
        docid,
        ...(assumedFrom === undefined ? {} : { assumedFrom }),
      }),
    );
  }

  #end(stood: Stood): void {
    stood.open = false;
    this.#facts.push({ fact: 'ended', ...this.#at(stood.place), reason: 'deleted' });
  }
}

function keyOf(index: number, path?: string): FolderKey {
  const key = FOLDERS[index] ?? FOLDERS[0];
  if (key === undefined) throw new Error('no folders');
  return path === undefined ? key : { ...key, folder: path };
}

export function addressOf(resource: string): string {
  return resource === 'AC1' ? 'one@example.net' : 'two@example.net';
}

function shown(
  address: string,
  path: string,
  uid: number,
  id: string | null,
  flags: FlagSet,
): string {
  return JSON.stringify([address, path, uid, id, flags]);
}

export function lines(list: Iterable<PlaceLine>): string[] {
  return [...list].map((line) => shown(line.mailbox, line.folder, line.uid, line.id, line.flags));
}
