import { existsSync } from 'node:fs';
import path from 'node:path';
import { replaceFile } from '../archive/files/file-layer.ts';
import { realFiles } from '../archive/files/real-files.ts';
import { errnoName } from '../errors/mailkeep-error.ts';
import { usageError } from '../errors/usage.ts';
import { newSigningKey } from '../verify/checkpoint.ts';

/**
 * Returns the file of the key that signs for an archive (Ed25519, PKCS #8, PEM), which is created if it is missing.
 *
 * @throws usage-save-failed
 */
export async function ownSigningKey(dataDir: string): Promise<string> {
  const file = path.join(dataDir, 'checkpoint.key');
  if (existsSync(file)) return file;
  try {
    await replaceFile(realFiles, file, Buffer.from(newSigningKey(), 'utf8'));
  } catch (error) {
    throw usageError('usage-save-failed', { file, reason: errnoName(error) });
  }
  return file;
}
