import { type Command, InvalidArgumentError } from 'commander';
import type { SampleSize } from '../../../engine/verify/verify.ts';
import { usageError } from '../../../errors/usage.ts';
import { archiveOf } from '../../archive-access.ts';
import type { Body } from '../../context.ts';
import { collected, wholeNumber } from '../../option-values.ts';

interface VerifyLine {
  readonly quick?: boolean;
  readonly sample?: SampleSize;
  readonly checkpoint?: string;
  readonly publicKey?: string;
  readonly export?: string;
  readonly copy?: string;
  readonly origin?: boolean;
  readonly drill?: number | true;
  readonly seed?: number;
  readonly repair?: boolean;
  readonly trustCopy?: boolean;
  readonly from?: string[];
}

/** Messages of a drill, if not said. */
const DRILLED = 20;
const MOST_DRILLED = 1_000_000;

const HELP = `
Verifies the archive against itself. By default every byte is read: the log with its checksums, hashes and
chain of commits, every message rebuilt and hashed, and every row of the catalog compared with what the log
implies. Damage is listed with the messages it affects, and the exit code is 3. Nothing is changed, and the
command can run during a sync.

--quick skips hashing large records (attachments) and rebuilding messages.
--sample verifies some messages, starting with those not verified for longest.
--checkpoint also proves that nothing was changed or cut off before a signed statement of "mailkeep
checkpoint". --public-key names the key that must have signed it.

--origin compares the archive with the service: every uid, listed field and flag of every folder, within the
request budget. For places that were relinked without a download, it fetches and compares the sources. It needs
a configuration and exclusive use of the archive. Differences exit with code 1; "sync --full" resolves them.

--drill exports some random messages (20 by default) into a temporary folder, reads them back with another
parser, compares bytes and headers, and removes the folder. --seed selects the same messages again.
--export compares an export (a folder or a zip) with its manifest, every byte; it needs no archive.

--copy checks an encrypted copy (see "copy --help"): every segment is downloaded, opened and read, or as many as
--sample says, drawn at random (3, or 5%; at least one). Where this machine may only write to it, the bytes of its objects are compared with the
signed manifest instead.

--repair repairs what it finds: single flipped bits by the checksums and hashes over them, other damage from
another file of the log, from a copy (--from, a folder or s3://…), or from the mailbox itself if there is a
configuration. Bytes are accepted only if their hash matches. Data that cannot be recovered is recorded as
missing and reported until it is found. Replaced files are kept as *.damaged; nothing is deleted. Commits of
a copy behind the last one known here are taken only if a checkpoint that this archive signed covers them, or
with --trust-copy.

EXAMPLES
  mailkeep verify
  mailkeep verify --checkpoint /media/usb/checkpoint.json
  mailkeep verify --sample 5%
  mailkeep verify --origin
  mailkeep verify --drill 100
  mailkeep verify --export /media/usb/mail.zip
  mailkeep verify --copy s3://my-bucket/mail --sample 5%
  mailkeep verify --repair --from /media/usb/archive
  mailkeep verify --json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--quick', 'structure, chain and catalog only')
    .option('--sample <p>', 'this many messages, or this share of them (5%)', sampleSize)
    .option('--checkpoint <file>', 'prove that the log still contains what this statement covers')
    .option(
      '--public-key <key>',
      'for --checkpoint: the key that must have signed it, or a file with that key',
    )
    .option('--origin', 'compare with the service, instead of the archive with itself')
    .option('--repair', 'recover damaged and missing bytes, and rebuild the catalog')
    .option(
      '--from <copy>',
      'for --repair: a copy of the archive, a folder or s3://BUCKET/PREFIX; repeatable',
      collected,
    )
    .option('--trust-copy', 'for --from: also take what nothing here proves')
    .option(
      '--drill [n]',
      'export this many messages, read them back and compare them',
      wholeNumber(1, MOST_DRILLED),
    )
    .option('--seed <n>', 'for --drill: select messages by this seed', wholeNumber(0, 2 ** 32 - 1))
    .option('--export <path>', 'compare an export with its manifest, instead of the archive')
    .option('--copy <target>', 'check an encrypted copy, instead of the archive')
    .addHelpText('after', HELP)
    .action((options: VerifyLine) =>
      chosen(async (context) => {
        const { quick = false, sample, checkpoint, repair = false, from = [] } = options;
        refuseCombination(options);
        if (options.export !== undefined) {
          const { verifyExport } = await import('./verify-export.ts');
          return verifyExport(context, options.export);
        }
        if (options.copy !== undefined) {
          const { verifyCopy } = await import('./verify-copy.ts');
          return verifyCopy(context, options.copy, sample);
        }
        if (options.origin === true) {
          const { verifyOrigin } = await import('./verify-origin.ts');
          return verifyOrigin(context);
        }
        if (options.drill !== undefined) {
          const { verifyDrill } = await import('./drill.ts');
          return verifyDrill(
            context,
            options.drill === true ? DRILLED : options.drill,
            options.seed,
          );
        }
        const dataDir = archiveOf(context);
        if (sample !== undefined) {
          const { verifyPart } = await import('./verify.ts');
          return verifyPart(context, dataDir, sample);
        }
        if (repair) {
          const { repair: mend } = await import('./repair.ts');
          return mend(context, dataDir, from, options.trustCopy ?? false);
        }
        // The threads load while this one does.
        const { checkerOnThreads } = await import('../../../verify/segment-threads.ts');
        const checker = checkerOnThreads();
        try {
          const { verifyAll, vouchedBy } = await import('./verify.ts');
          const statement =
            checkpoint === undefined ? null : vouchedBy(context, checkpoint, options.publicKey);
          return await verifyAll(context, dataDir, !quick, statement, checker);
        } finally {
          await checker.close();
        }
      }),
    );
}

function refuseCombination(options: VerifyLine): void {
  const { quick, sample, checkpoint, repair, from } = options;
  const wrong = (problem: string) => usageError('usage-invalid', { command: 'verify', problem });
  if (sample !== undefined && (quick === true || checkpoint !== undefined || repair === true)) {
    throw wrong(
      '--sample cannot be combined with these: a sample proves neither chain nor checkpoint.',
    );
  }
  const { copy, sample: _, ...besides } = options;
  if (copy !== undefined && Object.keys(besides).length > 0) {
    throw wrong('--copy can be combined with --sample only: it does not verify the archive.');
  }
  if (options.origin === true && Object.keys(options).length > 1) {
    throw wrong(
      '--origin cannot be combined: it compares with the service, the others with what is on disk.',
    );
  }
  if (options.export !== undefined && Object.keys(options).length > 1) {
    throw wrong('--export cannot be combined: it does not verify the archive.');
  }
  const { drill, seed, ...others } = options;
  if (drill !== undefined && Object.keys(others).length > 0) {
    throw wrong('--drill cannot be combined: it tries exports, and proves no more than they need.');
  }
  if (seed !== undefined && drill === undefined) throw wrong('--seed belongs to --drill.');
  if (repair === true && quick === true) {
    throw wrong('--repair reads everything, --quick does not.');
  }
  if (options.publicKey !== undefined && options.checkpoint === undefined) {
    throw wrong('--public-key belongs to --checkpoint.');
  }
  if (from !== undefined && repair !== true) throw wrong('--from belongs to --repair.');
  if (options.trustCopy === true && from === undefined) {
    throw wrong('--trust-copy belongs to --from.');
  }
}

function sampleSize(text: string): SampleSize {
  const share = /^(\d{1,3}(?:\.\d+)?)%$/.exec(text);
  if (share !== null && Number(share[1]) > 0 && Number(share[1]) <= 100) {
    return { share: Number(share[1]) / 100 };
  }
  if (/^[1-9]\d{0,14}$/.test(text)) return { messages: Number(text) };
  throw new InvalidArgumentError('It takes a number of messages, or a share such as 5%.');
}
