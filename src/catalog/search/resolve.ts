import { docidAt } from '../../mail/docid.ts';
import { specialUseCalled } from '../../mail/name-selection.ts';
import { nearest, nearestAddress, nearestFolder } from '../../names/nearest.ts';
import type { SearchNode, State, TextField, TextNode } from '../../search/ast.ts';
import {
  ftsString,
  listTokens,
  mailboxToken,
  mimeTokens,
  TOKEN_ATTACHMENT,
  TOKEN_INLINE,
} from '../../search/fts-text.ts';
import { exactAddress, recipientToken, senderToken } from '../../search/people.ts';
import { threadNode } from '../../search/thread-links.ts';
import { MARK } from '../flag-marks.ts';
import type { FlagSetRow } from '../flag-sets.ts';
import {
  type EverNamed,
  type FolderName,
  isMailboxCalled,
  mailboxesCalled,
  mailboxesOfAccount,
} from '../folder-names.ts';
import type { Formula, Members, PlaceCondition } from './formula.ts';
import type { ObservedCommits } from './observed.ts';

/** What names in a query stand for in this archive. */
export interface Names {
  readonly folders: ReadonlyMap<number, FolderName>;
  flagSets(): readonly FlagSetRow[];
  /** Docids of the messages whose id begins so. */
  byIdPrefix(prefix: string): readonly number[];
  /** The messages in the thread of one, and in the one that a Message-ID is in; undefined where there are none. */
  threadOf(docid: number): Members | undefined;
  threadNaming(messageId: string): Members | undefined;
  /** What folders and mailboxes were ever called: a name from another time is known, and finds nothing. */
  ever(): EverNamed;
  /** The commits of a stretch of time, and the messages that they stored first or deleted. */
  readonly observed: ObservedCommits;
  /** The host of each account that is configured, by its name in lower case. */
  readonly accounts: ReadonlyMap<string, string>;
}

/** A name in the query that nothing has, at the time that is asked about. */
export interface UnknownName {
  readonly kind: 'folder' | 'mailbox' | 'account' | 'message';
  readonly found: string;
  readonly suggestion: string | null;
  /** Names there are, where they are few enough to be listed; else empty. */
  readonly candidates: readonly string[];
  /** False for a name of another time, or of a configured account that has nothing yet: an empty answer is right. */
  readonly never: boolean;
}

const COLUMNS: Readonly<Record<TextField, string>> = {
  any: '- meta',
  from: 'from_',
  to: 'rcpt',
  cc: 'cc',
  bcc: 'bcc',
  deliveredto: 'delivered',
  recip: '{rcpt cc bcc}',
  contact: '{from_ rcpt cc bcc}',
  subject: 'subject',
  body: 'body',
  filename: 'att_name',
};

const STATE_MARKS: Readonly<Record<Exclude<State, 'deleted'>, readonly [number, boolean]>> = {
  unread: [MARK.seen, false],
  read: [MARK.seen, true],
  starred: [MARK.flagged, true],
  unstarred: [MARK.flagged, false],
  answered: [MARK.answered, true],
  unanswered: [MARK.answered, false],
  forwarded: [MARK.forwarded, true],
  draft: [MARK.draft, true],
};

const never: Formula = { op: 'never' };

/** Turns a query into the catalog's terms; `unknown` hears of names that stand for nothing. */
export function resolve(
  node: SearchNode,
  names: Names,
  unknown: (name: UnknownName) => void,
): Formula {
  switch (node.kind) {
    case 'and':
    case 'or':
      return { op: node.kind, parts: node.nodes.map((part) => resolve(part, names, unknown)) };
    case 'not':
      return { op: 'not', part: resolve(node.node, names, unknown) };
    case 'all':
      return { op: 'always' };
    case 'text':
      return text(node);
    case 'near':
      return near(node.terms, node.distance);
    case 'has':
      return meta([node.what === 'attachment' ? TOKEN_ATTACHMENT : TOKEN_INLINE]);
    case 'mime': {
      const wanted = node.value.endsWith('/*') ? node.value.slice(0, -2) : node.value;
      return meta(mimeTokens(wanted).slice(-1));
    }
    case 'list':
      return meta(listTokens(node.value));
    case 'id':
      return messageId(node.value, names);
    case 'thread':
      return thread(node.value, names, unknown);
    case 'me':
      return me(node.field, names);
    case 'account':
      return account(node.value, names, unknown);
    case 'folder':
      return folder(node.value, names, unknown);
    case 'mailbox':
      return mailbox(node.value, names, unknown);
    case 'flag': {
      const wanted = node.value.toLowerCase().replace(/^\\/, '');
      return flagged(names, ({ flags }) =>
        flags.some(
          (flag) => flag.toLowerCase().replace(/^[\\$]/, '') === wanted.replace(/^\$/, ''),
        ),
      );
    }
    case 'state': {
      if (node.state === 'deleted') return { op: 'deleted' };
      const [mark, set] = STATE_MARKS[node.state];
      const indexed = node.state === 'unread' || node.state === 'starred' ? node.state : null;
      return flagged(names, ({ marks }) => ((marks & mark) !== 0) === set, indexed);
    }
    case 'received':
      return {
        op: 'docids',
        low: docidAt(node.from),
        high: node.to === null ? Number.MAX_SAFE_INTEGER : docidAt(node.to),
      };
    case 'observed': {
      const { what, from, to } = node;
      const commits = names.observed.between(from, to);
      if (commits === undefined) return never;
      const observed = { what, ...commits };
      return { op: 'observed', observed, within: names.observed.docidsOf(observed) };
    }
    case 'size':
      return { op: 'size', low: node.min ?? 0, high: node.max ?? Number.MAX_SAFE_INTEGER };
  }
}

function text({ field, text: words, prefix }: TextNode): Formula {
  const address = prefix ? undefined : exactAddress(words);
  if (address !== undefined) {
    if (field === 'from') return meta([senderToken(address)]);
    if (field === 'recip') return meta([recipientToken(address)]);
    if (field === 'contact') {
      const parts = [senderToken(address), recipientToken(address)].map((token) => meta([token]));
      return { op: 'or', parts };
    }
  }
  const string = ftsString(words, prefix);
  return string === undefined ? never : { op: 'fts', expression: `${COLUMNS[field]} : ${string}` };
}

function near(terms: readonly TextNode[], distance: number): Formula {
  const strings = terms.map((term) => ftsString(term.text, term.prefix));
  if (strings.some((string) => string === undefined)) return never;
  const columns = COLUMNS[terms[0]?.field ?? 'any'];
  return { op: 'fts', expression: `${columns} : NEAR(${strings.join(' ')}, ${distance})` };
}

/** Tokens of the meta column, one after the other. */
function meta(tokens: readonly string[]): Formula {
  return tokens.length === 0 ? never : { op: 'fts', expression: `meta : "${tokens.join(' ')}"` };
}

function messageId(value: string, names: Names): Formula {
  const exact: Formula = {
    op: 'members',
    members: { column: 'node', values: [threadNode(value)] },
  };
  if (!/^[0-9a-f]{4,64}$/i.test(value)) return exact;
  const ours = names
    .byIdPrefix(value)
    .map((docid): Formula => ({ op: 'docids', low: docid, high: docid + 1 }));
  return ours.length === 0 ? exact : { op: 'or', parts: [exact, ...ours] };
}

/** By the mailkeep id of any message in it, or its beginning, or by a Message-ID that it has or names. */
function thread(value: string, names: Names, unknown: (name: UnknownName) => void): Formula {
  const ours = /^[0-9a-f]{4,64}$/i.test(value) ? names.byIdPrefix(value) : [];
  const found = [
    ...ours.flatMap((docid) => names.threadOf(docid) ?? []),
    ...[names.threadNaming(value) ?? []].flat(),
  ];
  const [first] = found;
  if (first === undefined) {
    unknown({ kind: 'message', found: value, suggestion: null, candidates: [], never: true });
    return never;
  }
  const values = [...new Set(found.flatMap((members) => members.values))];
  return { op: 'members', members: { column: first.column, values } };
}

/** Whatever address a mailbox of the archive has. */
function me(field: TextField, { folders }: Names): Formula {
  const addresses = new Set([...folders.values()].map(({ address }) => address));
  const parts = [...addresses].flatMap((address) => {
    const string = ftsString(address, false);
    return string === undefined
      ? []
      : [{ op: 'fts', expression: `${COLUMNS[field]} : ${string}` } as const];
  });
  return parts.length === 0 ? never : { op: 'or', parts };
}

/** By its name in the configuration, or by the host that its mailboxes are at. */
function account(
  value: string,
  { folders, ever, accounts }: Names,
  unknown: (name: UnknownName) => void,
): Formula {
  const wanted = value.toLowerCase();
  const host = accounts.get(wanted) ?? wanted;
  const ids = mailboxesOfAccount(value, [...folders.values()], accounts);
  if (ids.size === 0) {
    const hosts = new Set(ever().mailboxes.map((known) => known.host));
    const candidates = [...accounts.keys(), ...hosts];
    const suggestion = nearest(value, candidates);
    const named = { kind: 'account', found: value, suggestion, candidates } as const;
    unknown({ ...named, never: !accounts.has(wanted) && !hosts.has(host) });
    return never;
  }
  return { op: 'or', parts: [...ids].map((id) => meta([mailboxToken(id)])) };
}

function folder(
  value: string,
  { folders, ever }: Names,
  unknown: (name: UnknownName) => void,
): Formula {
  if (value.toLowerCase() === 'anywhere') return { op: 'always' };
  const all = [...folders.values()];
  const found = foldersCalled(value, all);
  if (found.length === 0) {
    const known = ever().folders;
    const isNever = foldersCalled(value, known).length === 0;
    const suggestion = nearestFolder(value, known);
    unknown({ kind: 'folder', found: value, suggestion, candidates: [], never: isNever });
    return never;
  }
  return place({ folders: found.map(({ id }) => id), flagSets: null, indexed: null });
}

/** By the full path, else by the path in any case, the special use, or the last part of the path; `X*` is X and all below. */
function foldersCalled<F extends Pick<FolderName, 'path' | 'name' | 'specialUse'>>(
  value: string,
  all: readonly F[],
): readonly F[] {
  const exact = all.filter(({ path }) => path === value);
  if (exact.length > 0) return exact;
  const wanted = value.toLowerCase();
  if (wanted.endsWith('*')) {
    const stem = wanted.replace(/[*]+$/, '');
    return all.filter(({ path }) => path.toLowerCase().startsWith(stem));
  }
  const use = specialUseCalled(wanted);
  return all.filter(
    ({ path, name, specialUse }) =>
      path.toLowerCase() === wanted ||
      name.toLowerCase() === wanted ||
      (use !== undefined && specialUse?.toLowerCase() === use),
  );
}

function mailbox(
  value: string,
  { folders, ever }: Names,
  unknown: (name: UnknownName) => void,
): Formula {
  const ids = mailboxesCalled(value, [...folders.values()]);
  if (ids.size === 0) {
    const { mailboxes } = ever();
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(value, candidates);
    const named = { kind: 'mailbox', found: value, suggestion, candidates } as const;
    unknown({ ...named, never: !mailboxes.some((one) => isMailboxCalled(value, one)) });
    return never;
  }
  return { op: 'or', parts: [...ids].map((id) => meta([mailboxToken(id)])) };
}

function flagged(
  names: Names,
  fits: (set: FlagSetRow) => boolean,
  indexed: PlaceCondition['indexed'] = null,
): Formula {
  const flagSets = names
    .flagSets()
    .filter(fits)
    .map(({ id }) => id);
  return place({ folders: null, flagSets, indexed });
}

function place(condition: PlaceCondition): Formula {
  return { op: 'place', place: condition };
}
