import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { offsiteError, type SignerDamage } from '../../errors/offsite.ts';
import {
  canonicalBytes,
  type Fields,
  fromBase64,
  fromHex,
  hasOnly,
  readCanonical,
} from './canonical.ts';
import { keyIdOf } from './header.ts';
import { idOfName, recipientName } from './names.ts';
import { KEY_BYTES, publicKeyOf } from './raw-keys.ts';
import type { KeyObject } from './recipients.ts';
import type { CopySecrets } from './secrets.ts';

const MARK = 'copy signer 1';
const DOMAIN = 'mailkeep copy signer 1\n';
const NAMES = ['mailkeep', 'copy', 'id', 'key', 'signer', 'mac'];
/** Bytes of an object below `signers/`. */
export const MOST_SIGNER_BYTES = 4 * 1024;

/**
 * Returns an object that makes another key sign manifests of a copy. Only somebody who has the newest private key can make
 * one; after a rotation, later signers need new objects.
 *
 * @param signer Ed25519, 32 bytes
 */
export function encodeSigner(secrets: CopySecrets, signer: Buffer): KeyObject {
  const { name, id } = recipientName('signers');
  const [newest = Buffer.alloc(0)] = secrets.privateKeys;
  const fields = {
    mailkeep: MARK,
    copy: secrets.copyId.toString('hex'),
    id,
    key: keyIdOf(publicKeyOf(newest)).toString('hex'),
    signer: signer.toString('base64'),
  };
  const mac = macOf(newest, fields).toString('hex');
  return { name, bytes: canonicalBytes({ ...fields, mac }) };
}

/**
 * Returns the key (Ed25519, 32 bytes) that an object below `signers/` adds.
 *
 * @throws `copy-signer-damaged`; with reason `older-key` it was right before a rotation, and is to be left out
 */
export function readSigner({ name, bytes }: KeyObject, secrets: CopySecrets): Buffer {
  const damaged = (reason: SignerDamage) => offsiteError('copy-signer-damaged', { name, reason });
  const fields = readCanonical(bytes, MOST_SIGNER_BYTES, isShaped);
  const signer = fromBase64(fields?.signer, KEY_BYTES);
  const mac = fromHex(fields?.mac, 32);
  if (fields === undefined || signer === undefined || mac === undefined) throw damaged('shape');
  if (fields.copy !== secrets.copyId.toString('hex')) throw damaged('other-copy');
  if (fields.id !== idOfName('signers', name)) throw damaged('name');
  const { mac: _, ...signed } = fields;
  const index = secrets.privateKeys.findIndex((key) => timingSafeEqual(macOf(key, signed), mac));
  if (index < 0) throw damaged('mac');
  if (index > 0) throw damaged('older-key');
  return signer;
}

/** Under a key that only readers can derive. */
function macOf(privateKey: Buffer, fields: Fields): Buffer {
  const key = Buffer.from(hkdfSync('sha256', privateKey, Buffer.alloc(0), DOMAIN, KEY_BYTES));
  return createHmac('sha256', key).update(canonicalBytes(fields)).digest();
}

function isShaped(fields: Fields): boolean {
  return (
    hasOnly(fields, NAMES) &&
    fields.mailkeep === MARK &&
    Object.values(fields).every((one) => typeof one === 'string')
  );
}
