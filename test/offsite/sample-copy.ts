import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { archiveError } from '../../src/archive/errors.ts';
import { realFiles } from '../../src/archive/file-system.ts';
import type { CommittedBatch } from '../../src/archive/format.ts';
import { scanLog } from '../../src/archive/log-reader.ts';
import { type LogWriter, openLogWriter } from '../../src/archive/log-writer.ts';
import { verifyWrittenSegment } from '../../src/archive/segment-reader.ts';
import { folderStore } from '../../src/copies/folder-store.ts';
import { newCopyKeys } from '../../src/copies/format/keys.ts';
import { openManifest } from '../../src/copies/format/manifest.ts';
import { LocalKey, rawPublicKey } from '../../src/copies/local-key.ts';
import { copyMemory, findManifests } from '../../src/copies/manifests.ts';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import { type RestoredLog, restoreLog } from '../../src/copies/restore-copy.ts';
import { type UploadOptions, type UploadResult, uploadCopy } from '../../src/copies/upload-copy.ts';
import { openState, type StateFile } from '../../src/core/state.ts';
import type { SegmentProver } from '../../src/verify/check-segment.ts';
import { Positions } from '../archive/positions.ts';

export const signal = new AbortController().signal;

/** Reads files of segments in this process. */
export const prover: SegmentProver = {
  async intact({ segment, generation, path: file, sealed }) {
    verifyWrittenSegment(realFiles, { segment, generation }, file, sealed, () =>
      archiveError('log-damaged', { file, segment, offset: 0, reason: 'bytes' }),
    );
  },
  async close() {},
};

/** An archive on the disk, and a copy of it in a folder, with all its keys. */
export interface SampleCopy {
  readonly work: string;
  readonly dir: string;
  readonly writer: LogWriter;
  readonly known: Positions;
  readonly target: string;
  readonly store: ObjectStore;
  readonly key: LocalKey;
  readonly state: StateFile;
  readonly copy: (options?: Partial<UploadOptions>) => Promise<UploadResult>;
  readonly close: () => Promise<void>;
}

export async function sampleCopy(): Promise<SampleCopy> {
  const work = mkdtempSync(path.join(tmpdir(), 'offsite-'));
  const dir = path.join(work, 'archive');
  const target = path.join(work, 'target');
  mkdirSync(target);
  const writer = await openLogWriter({ dir, now: () => 1_770_000_000_000 });
  const state = openState(dir);
  const store = folderStore(target);
  const { privateKey: signingKey } = generateKeyPairSync('ed25519');
  const keys = newCopyKeys();
  const key = new LocalKey({
    copyId: keys.copyId.toString('hex'),
    to: target,
    publicKey: keys.publicKey,
    nameKey: keys.nameKey,
    privateKeys: [keys.privateKey],
    signers: [rawPublicKey(signingKey)],
  });
  return {
    ...{ work, dir, writer, target, store, key, state },
    known: new Positions(),
    copy: (options = {}) =>
      uploadCopy({
        ...{ dir, store, key, signingKey, prover, signal },
        memory: copyMemory(state, key.copyId),
        ...{ seen: 0, refresh: false, keep: 1, now: Date.now },
        ...options,
      }),
    close: async () => {
      await writer.close();
      state.close();
      rmSync(work, { recursive: true });
    },
  };
}

/** Brings the newest state of a copy back into a new folder; undefined where there is none. */
export async function broughtBack(
  { work, store, key }: Pick<SampleCopy, 'work' | 'store' | 'key'>,
  name: string,
): Promise<(RestoredLog & { readonly dir: string; readonly number: number }) | undefined> {
  const { newest } = await findManifests(store, key, signal);
  if (newest === undefined) return undefined;
  const opening = { copyId: Buffer.from(key.copyId, 'hex'), privateKeys: key.privateKeys };
  const dir = path.join(work, name);
  const manifest = await openManifest(newest.clear, opening);
  const objects = new Map(newest.clear.objects.map((entry) => [entry.name, entry]));
  const back = await restoreLog({
    ...{ store, manifest, objects, prover, signal },
    key: opening,
    to: dir,
  });
  return { ...back, dir, number: manifest.commit.number };
}

/** The batches of a log, which must be without any damage. */
export async function batchesIn(dir: string): Promise<CommittedBatch[]> {
  const batches: CommittedBatch[] = [];
  for await (const event of scanLog({ dir, files: realFiles })) {
    if (event.what === 'batch' && event.sound) batches.push(event.batch);
    else throw new Error(JSON.stringify(event));
  }
  return batches;
}
