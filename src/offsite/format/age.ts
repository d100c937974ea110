import { offsiteError } from '../../errors/offsite.ts';

/** Loaded when it is needed: most copies have no age recipient. */
const library = () => import('age-encryption');

const IDENTITY = /^AGE-SECRET-KEY-/i;

/**
 * Returns an age file (age-encryption.org/v1) for a recipient.
 *
 * @throws `copy-age-recipient`
 */
export async function encryptForAge(recipient: string, text: Buffer): Promise<Buffer> {
  const { Encrypter } = await library();
  const encrypter = new Encrypter();
  try {
    encrypter.addRecipient(recipient);
  } catch {
    // Somebody may have given the secret half; the library's message may quote it too.
    const isSecret = /AGE-SECRET-KEY-/i.test(recipient);
    const found = isSecret ? 'AGE-SECRET-KEY-…' : recipient;
    throw offsiteError('copy-age-recipient', { found });
  }
  return Buffer.from(await encrypter.encrypt(text));
}

/** Returns the content of an age file, or undefined if none of the identities opens it. */
export async function decryptWithAge(
  identities: readonly string[],
  file: Buffer,
): Promise<Buffer | undefined> {
  const { Decrypter } = await library();
  const decrypter = new Decrypter();
  for (const identity of identities) decrypter.addIdentity(identity);
  try {
    return Buffer.from(await decrypter.decrypt(file));
  } catch {
    // Not for these identities, or damaged: the library has no way to know which.
    return undefined;
  }
}

/**
 * Returns the identities in the text of a file as `age-keygen` writes it: one a line, with comments.
 *
 * @throws `copy-age-identity` with the number of the first line that is none, never with its text
 */
export async function parseIdentities(text: string): Promise<string[]> {
  const { Decrypter } = await library();
  const identities: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    if (!isIdentity(trimmed, new Decrypter()))
      throw offsiteError('copy-age-identity', { line: index + 1 });
    identities.push(trimmed);
  }
  if (identities.length === 0) throw offsiteError('copy-age-identity', { line: null });
  return identities;
}

function isIdentity(text: string, decrypter: { addIdentity(text: string): void }): boolean {
  if (!IDENTITY.test(text)) return false;
  try {
    decrypter.addIdentity(text);
    return true;
  } catch {
    // A wrong checksum or length; its message may quote the key, so it is not kept.
    return false;
  }
}
