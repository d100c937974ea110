import path from 'node:path';
import { realFiles, replaceFile } from '../../archive/file-system.ts';
import { FOLDER_MODE } from '../../archive/format.ts';
import { readLogHead } from '../../archive/log-reader.ts';
import { readCatalogHead } from '../../catalog/implied.ts';
import { usageError } from '../../core/error-tables.ts';
import { errnoName } from '../../core/errors.ts';
import { makeFolders } from '../../core/files.ts';
import { count } from '../../core/text.ts';
import {
  ensureSigningKey,
  fingerprintOf,
  readSigningKey,
  signCheckpoint,
} from '../../verify/checkpoint.ts';
import { requireArchiveDir } from '../archive.ts';
import { action, type CommandContext, type Register, type Values } from '../context.ts';

const HELP = `
Prints a signed statement about the log's last commit, and writes it to a file. The hash of a commit covers
everything before it. Keep the statement away from the archive (print it, mail it to yourself):
"mailkeep verify --checkpoint FILE" can prove later that nothing before it was changed or cut off.

The statement is signed with an Ed25519 key: --key FILE (PKCS #8, PEM), or checkpoint.key in the archive's
folder, which is created if missing. It names no mail, no mailbox and no host.

EXAMPLES
  mailkeep checkpoint
  mailkeep checkpoint --to /media/usb/checkpoint.json`;

export const register: Register = (command, run) => {
  command
    .option('--to <file>', 'file to write (default: checkpoints/NUMBER.json in the archive)')
    .option('--key <file>', 'sign with this key')
    .addHelpText('after', HELP)
    .action(action(run, makeCheckpoint));
};

async function makeCheckpoint(
  context: CommandContext,
  options: Values<'to' | 'key'>,
): Promise<void> {
  const { now, output, environment } = context;
  const dataDir = requireArchiveDir(context);
  const head = readLogHead(dataDir, readCatalogHead(dataDir));
  const keyFile =
    options.key === undefined
      ? await ensureSigningKey(dataDir)
      : path.resolve(environment.cwd, options.key);
  const checkpoint = signCheckpoint(head, readSigningKey(keyFile), now());
  const file =
    options.to === undefined
      ? path.join(dataDir, 'checkpoints', `${String(head.number).padStart(10, '0')}.json`)
      : path.resolve(environment.cwd, options.to);
  await write(file, `${JSON.stringify(checkpoint, null, 2)}\n`, options.to === undefined);
  // Same format as the output of `verify --checkpoint`.
  const signer = fingerprintOf(checkpoint.publicKey);
  await output.object({ ...checkpoint, signer, file }, () => [
    `Commit ${count(head.number)}, ${head.hash}`,
    `archive ${head.archiveId}, signed ${checkpoint.signedAt} with key ${signer} (${checkpoint.publicKey})`,
    checkpoint.signature,
    `written to ${file}; keep a copy where the archive is not.`,
  ]);
}

async function write(file: string, text: string, makeFolder: boolean): Promise<void> {
  try {
    if (makeFolder) makeFolders(path.dirname(file), FOLDER_MODE);
    await replaceFile(realFiles, file, Buffer.from(text, 'utf8'));
  } catch (error) {
    throw usageError('usage-save-failed', { file, reason: errnoName(error) });
  }
}
