import { defineErrors } from '../core/errors.ts';
import { bytes } from '../core/text.ts';

export const shardError = defineErrors({
  config: {
    'fleet-few-files': ({ limit, needed }: { limit: number; needed: number }) => [
      `A worker may have only ${limit} files open at once here, and needs ${needed}.`,
      `Raise the limit: LimitNOFILE=${needed} in a unit of systemd, or "ulimit -n ${needed}".`,
    ],
  },
  usage: {
    'fleet-registry-used': ({ registry }: { registry: string }) => [
      `${registry} has shards already. Nothing was changed.`,
      'Create an empty database for --from-bucket, or leave the option out.',
    ],
  },
  origin: {
    'fleet-import-cut-off': ({ folder }: { folder: string }) => [
      `The import of ${folder} was given up, because the registry could not be reached for minutes.`,
      'No account was added. Run the command again.',
    ],
  },
  disk: {
    'fleet-disk-short': (f: { folder: string; free: number; needed: number }) => [
      `Only ${bytes(f.free)} are free in ${f.folder}, and minFreeBytes keeps ${bytes(f.needed)} free.`,
      'Free some space, or put fleet.cache on a larger disk.',
    ],
    /** `code` is its exit code or signal. */
    'shard-daemon-ended': ({ shard, code }: { shard: number; code: string }) => [
      `The daemon of shard ${shard} ended by itself (${code}).`,
      'The log of the worker has the reason.',
    ],
  },
});
