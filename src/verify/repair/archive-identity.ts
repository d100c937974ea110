import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { FileLayer } from '../../archive/files/file-layer.ts';
import type { ExpectedCommit } from '../../archive/read/recovery.ts';
import { segmentBatches } from '../../archive/read/segment-batches.ts';
import { listSegments, openInForce, openSegment } from '../../archive/read/segment-files.ts';
import { errnoName, hasCode } from '../../errors/mailkeep-error.ts';
import { verifyError } from '../../errors/verify.ts';
import { publicKeyOf, readCheckpoint, readSigningKey } from '../checkpoint.ts';

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

/** Statements that this archive's own key signed. */
function idOfCheckpoints(dir: string): string | undefined {
  try {
    const own = publicKeyOf(readSigningKey(path.join(dir, 'checkpoint.key')));
    const folder = path.join(dir, 'checkpoints');
    for (const name of readdirSync(folder).toSorted().toReversed()) {
      const statement = statementIn(path.join(folder, name));
      if (statement?.publicKey === own) return statement.archiveId;
    }
  } catch (error) {
    if (!hasCode(error, 'checkpoint-key') && errnoName(error) !== 'ENOENT') throw error;
  }
  return undefined;
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
