import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { FileLayer } from '../../archive/files/file-layer.ts';
import type { ExpectedCommit } from '../../archive/read/recovery.ts';
import { segmentBatches } from '../../archive/read/segment-batches.ts';
import { listSegments, openInForce, openSegment } from '../../archive/read/segment-files.ts';
import { errnoOf, hasCode } from '../../errors/mailkeep-error.ts';
import { verifyError } from '../../errors/verify.ts';
import { type Checkpoint, publicKeyOf, readCheckpoint, readSigningKey } from '../checkpoint.ts';

/**
 * The id of the archive in a folder, from what the folder itself knows: the headers of its segments, its own
 * checkpoints, or a copy that holds the commit which the catalog has reached. A copy's word alone is never enough: it
 * may be of another archive.
 *
 * @returns the id in hex; undefined if nothing here shows it and there is no copy to compare
 * @throws `repair-archive-unknown` if nothing here shows it, `repair-other-archive` for a copy of another archive:
 *   nothing was changed
 */
export function archiveIdOf(
  files: FileLayer,
  dir: string,
  copies: readonly string[],
  expected: ExpectedCommit | undefined,
): string | undefined {
  const known =
    idOfSegments(files, dir) ??
    idOfCheckpoints(dir) ??
    copies.flatMap((copy) => idByCommit(files, copy, expected) ?? []).at(0);
  for (const copy of copies) {
    const found = idOfSegments(files, copy);
    if (found === undefined) continue;
    if (known === undefined) throw verifyError('repair-archive-unknown', { dir, copy });
    if (found !== known) {
      throw verifyError('repair-other-archive', { copy, found, wanted: known });
    }
  }
  return known;
}

/** What most files of the log say: a single one may have been put there by mistake. */
function idOfSegments(files: FileLayer, dir: string): string | undefined {
  const votes = new Map<string, number>();
  for (const [segment, generations] of listSegments(files, dir)) {
    for (const generation of generations) {
      const opened = openSegment(files, dir, { segment, generation });
      if (opened === undefined) continue;
      opened.file.close();
      const id = opened.header.archiveId.toString('hex');
      votes.set(id, (votes.get(id) ?? 0) + 1);
    }
  }
  return [...votes].toSorted(([, a], [, b]) => b - a).at(0)?.[0];
}

function idOfCheckpoints(dir: string): string | undefined {
  for (const { archiveId } of signedHere(dir, dir)) return archiveId;
  return undefined;
}

/** As many files as this are looked at in a folder of checkpoints: anybody may have filled that of a copy. */
const MOST_CHECKPOINTS = 1000;

/**
 * Yields the checkpoints of a folder that this archive's own key signed, the newest names first; none where the archive
 * has no key, or the folder no checkpoints.
 *
 * @param dir the archive
 * @param folder the same, or a copy of it
 */
export function* signedHere(dir: string, folder: string): Generator<Checkpoint, void, undefined> {
  const checkpoints = path.join(folder, 'checkpoints');
  let own: string;
  let names: readonly string[];
  try {
    own = publicKeyOf(readSigningKey(path.join(dir, 'checkpoint.key')));
    names = readdirSync(checkpoints).toSorted().toReversed().slice(0, MOST_CHECKPOINTS);
  } catch (error) {
    // What cannot be read proves nothing.
    if (!hasCode(error, 'checkpoint-key') && errnoOf(error) === undefined) throw error;
    return;
  }
  for (const name of names) {
    const statement = statementIn(path.join(checkpoints, name));
    if (statement?.publicKey === own) yield statement;
  }
}

function statementIn(file: string) {
  try {
    return readCheckpoint(file);
  } catch (error) {
    if (hasCode(error, 'checkpoint-unreadable') || hasCode(error, 'checkpoint-forged')) {
      return undefined;
    }
    throw error;
  }
}

/** A commit's hash covers the archive's id: a log that has the commit which the catalog has seen is of this archive. */
function idByCommit(
  files: FileLayer,
  dir: string,
  expected: ExpectedCommit | undefined,
): string | undefined {
  if (expected === undefined || expected.number === 0) return undefined;
  for (const [segment, generations] of listSegments(files, dir)) {
    try {
      const opened = openInForce(files, dir, segment, generations);
      try {
        for (const item of segmentBatches(opened, { digest: true }, () => undefined)) {
          if (item.what !== 'batch' || item.commit.number !== expected.number) continue;
          const holds = item.commit.hash === expected.hash;
          return holds ? opened.header.archiveId.toString('hex') : undefined;
        }
      } finally {
        opened.file.close();
      }
    } catch (error) {
      if (!hasCode(error, 'log-damaged')) throw error;
    }
  }
  return undefined;
}
