import { type OffsiteFacts, offsiteError } from '../../errors/offsite.ts';
import { isSignedBy } from '../../verify/ed25519.ts';
import {
  canonicalBytes,
  type Fields,
  fromBase64,
  fromHex,
  hasOnly,
  readCanonical,
} from './canonical.ts';
import { KEY_BYTES } from './raw-keys.ts';

/** What the object `mailkeep-copy` says. Whoever can write to the place can replace it: no key is taken from it. */
export interface CopyFile {
  readonly copyId: Buffer;
  /** X25519, 32 bytes. */
  readonly publicKey: Buffer;
  /** Ed25519, 32 bytes. */
  readonly signer: Buffer;
}

/** Returns the signature (Ed25519, 64 bytes) of bytes. */
export type Sign = (bytes: Buffer) => Buffer;

/** Bytes of the object `mailkeep-copy`. */
export const MOST_FILE_BYTES = 4 * 1024;
const MARK = 'copy 1';
const DOMAIN = Buffer.from('mailkeep copy file 1\n', 'utf8');
const NAMES = ['mailkeep', 'copy', 'publicKey', 'signer', 'signature'];

/** Returns the object that describes a copy to people. */
export function encodeCopyFile({ copyId, publicKey, signer }: CopyFile, sign: Sign): Buffer {
  const fields = {
    mailkeep: MARK,
    copy: copyId.toString('hex'),
    publicKey: publicKey.toString('base64'),
    signer: signer.toString('base64'),
  };
  const signature = sign(signedBytes(fields)).toString('base64');
  return canonicalBytes({ ...fields, signature });
}

/**
 * Returns what the object says. Its signature shows that it is intact, not who made it.
 *
 * @throws `copy-file-damaged`
 */
export function decodeCopyFile(bytes: Buffer): CopyFile {
  const damaged = (reason: OffsiteFacts['copy-file-damaged']['reason']) =>
    offsiteError('copy-file-damaged', { reason, found: null });
  const fields = readCanonical(bytes, MOST_FILE_BYTES, isFlat);
  if (fields === undefined) throw damaged('shape');
  const { mailkeep } = fields;
  if (mailkeep !== MARK) {
    const found = /^copy [1-9]\d{0,9}$/.exec(String(mailkeep))?.[0];
    // One flipped bit makes another number of ours.
    if (found === undefined || isSigned({ ...fields, mailkeep: MARK })) throw damaged('shape');
    throw offsiteError('copy-file-damaged', { reason: 'newer', found });
  }
  const copyId = fromHex(fields.copy, 16);
  const publicKey = fromBase64(fields.publicKey, KEY_BYTES);
  const signer = fromBase64(fields.signer, KEY_BYTES);
  const isWhole = copyId !== undefined && publicKey !== undefined && signer !== undefined;
  if (!isWhole || !hasOnly(fields, NAMES)) throw damaged('shape');
  if (!isSigned(fields)) throw damaged('signature');
  return { copyId, publicKey, signer };
}

function isSigned({ signature, ...signed }: Fields): boolean {
  const signer = fromBase64(signed.signer, KEY_BYTES);
  const made = fromBase64(signature, 64);
  if (signer === undefined || made === undefined) return false;
  return isSignedBy(signer, signedBytes(signed), made);
}

function signedBytes(fields: Fields): Buffer {
  return Buffer.concat([DOMAIN, canonicalBytes(fields)]);
}

function isFlat(fields: Fields): boolean {
  return Object.values(fields).every((one) => typeof one === 'string');
}
