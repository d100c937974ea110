import type { HistoryLine } from '../catalog/message-history.ts';
import type { ManifestEntry } from './manifest.ts';

/** A place that a message has or had, according to its history. */
interface SidecarPlace {
  readonly mailbox: string;
  readonly folder: string;
  readonly generation: number;
  readonly uid: number;
  readonly flags: readonly string[];
  readonly firstSeen: string | null;
  readonly endedAt: string | null;
}

/** What the archive knows about an exported place and its message, apart from the bytes. */
export interface Sidecar extends Omit<ManifestEntry, 'path' | 'sha256' | 'inMbox'> {
  readonly id: string;
  readonly places: readonly SidecarPlace[];
  readonly history: readonly Omit<HistoryLine, 'id'>[];
}

/** @param history all that happened to the message; what is later than the commit of the export is left out */
export function sidecarOf(
  { path: _path, sha256: id, inMbox: _inMbox, ...place }: ManifestEntry,
  history: readonly HistoryLine[],
  exported: number,
): Sidecar {
  const known = history.filter(({ commit }) => commit <= exported);
  return {
    id,
    ...place,
    places: placesOf(known),
    history: known.map(({ id: _id, ...line }) => line),
  };
}

function placesOf(history: readonly HistoryLine[]): SidecarPlace[] {
  const places = new Map<string, SidecarPlace>();
  for (const { event, time, mailbox, folder, generation, uid, flags } of history) {
    const key = JSON.stringify([mailbox, folder, generation, uid]);
    const before = places.get(key);
    places.set(key, {
      mailbox,
      folder,
      generation,
      uid,
      flags: flags ?? before?.flags ?? [],
      firstSeen: before?.firstSeen ?? time,
      endedAt: event === 'ended' ? time : event === 'reopened' ? null : (before?.endedAt ?? null),
    });
  }
  return [...places.values()];
}

/** The sidecar of one message, as a file. */
export function sidecarText(sidecar: Sidecar): string {
  return `${JSON.stringify(sidecar, null, 2)}\n`;
}

/** The sidecars of a folder's messages in one file: an array, an item a line. */
export async function* sidecarsText(sidecars: AsyncIterable<Sidecar>): AsyncGenerator<string> {
  let first = true;
  for await (const sidecar of sidecars) {
    yield `${first ? '[' : ','}\n${JSON.stringify(sidecar)}`;
    first = false;
  }
  yield first ? '[]\n' : '\n]\n';
}
