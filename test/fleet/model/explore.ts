import { hash } from 'node:crypto';
import {
  type Budget,
  hasPurge,
  initial,
  isSecret,
  keyOf,
  mailOf,
  type State,
  withoutEffectless,
} from './state.ts';
import { steps } from './steps.ts';
import type { Variant } from './variants.ts';

export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** The promise that does not hold, and the steps that lead there. */
  readonly broken: { readonly promise: string; readonly trace: readonly string[] } | undefined;
  /** Kinds of steps that happened: an exploration in which nothing happens shows nothing. */
  readonly happened: ReadonlySet<string>;
}

/**
 * Visits every state within bounds, nearest first, until a promise is broken.
 *
 * @param after steps that were made before, by how their labels begin
 */
export function explore(
  budget: Budget,
  variant: Variant = {},
  after: readonly string[] = [],
): Explored {
  const first = after.reduce((state, label) => {
    const step = [...steps(state, variant)].find((one) => one.label.startsWith(label));
    if (step === undefined) throw new Error(`no step begins with ${label}`);
    return step.next;
  }, initial(budget));
  const seen = new Set([short(first)]);
  const parents = [-1];
  const labels = [''];
  const happened = new Set<string>();
  let count = 0;
  let frontier: (readonly [State, number])[] = [[first, 0]];
  while (frontier.length > 0) {
    const next: (readonly [State, number])[] = [];
    for (const [state, at] of frontier) {
      for (const step of steps(state, variant)) {
        count += 1;
        happened.add(kindOf(step.label));
        const promise = brokenPromise(step.next);
        const reduced = withoutEffectless(step.next, variant);
        const key = short(reduced);
        if (promise === '' && seen.has(key)) continue;
        seen.add(key);
        labels.push(step.label);
        parents.push(at);
        if (promise !== '') {
          const trace: string[] = [];
          for (let x = parents.length - 1; x > 0; x = parents[x] ?? 0)
            trace.unshift(labels[x] ?? '');
          return { states: seen.size, steps: count, broken: { promise, trace }, happened };
        }
        next.push([reduced, parents.length - 1]);
      }
    }
    frontier = next;
  }
  return { states: seen.size, steps: count, broken: undefined, happened };
}

/** 128 bits tell states apart. */
function short(state: State): string {
  return hash('md5', keyOf(state), 'base64');
}

/** `claims` of a label such as `a0 claims`, `ship refused` of `ship k1 arrives: refused`. */
function kindOf(label: string): string {
  const words = label
    .replace(/\b(?:[abkms]\d|c\d[\w.]*)\b/g, '')
    .replace(/ +/g, ' ')
    .trim();
  return words.replace(' arrives', '').replace(':', '');
}

function brokenPromise({ db, bucket, nodes, promised, broken }: State): string {
  if (broken !== '') return broken;
  if (db.isRestored) return '';
  const manifest = bucket.objects[db.manifest];
  if (db.manifest !== '' && manifest === undefined) return 'the manifest is not there';
  for (const name of manifest?.names ?? []) {
    if (bucket.objects[name] === undefined)
      return `an object of the manifest is not there: ${name}`;
  }
  const stored = new Set(
    (manifest?.names ?? []).flatMap((name) => bucket.objects[name]?.data ?? []),
  );
  for (const commit of manifest?.log ?? []) {
    if (!stored.has(commit)) return `no object of the manifest has ${commit}`;
  }
  const mails = new Set((manifest?.log ?? []).map(mailOf));
  for (const mail of promised.shipped) if (!mails.has(mail)) return `shipped ${mail} was lost`;
  const sessions = new Map<string, string>();
  for (const commit of manifest?.log ?? []) {
    const [, session = '', epoch = ''] = commit.split('|');
    if ((sessions.get(epoch) ?? session) !== session) return `two sessions wrote in epoch ${epoch}`;
    sessions.set(epoch, session);
  }
  const log = manifest?.log ?? [];
  if (
    log.slice(log.findIndex((commit) => commit.startsWith('p')) + 1).some(isSecret) &&
    hasPurge(log)
  ) {
    return 'a forgotten message came back';
  }
  if (promised.isForgetAcknowledged && db.purges === 0) return 'an acknowledged forget is unknown';
  if (!promised.hasForgetEnded) return '';
  for (const [key, { secret }] of Object.entries(bucket.objects)) {
    if (secret) return `forgotten, and still in the bucket: ${key}`;
  }
  for (const { session, folder, aside } of nodes) {
    if (folder.secret || aside?.secret === true)
      return `forgotten, and still on the disk of ${session}`;
  }
  return '';
}
