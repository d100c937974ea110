import { createHmac, hash } from 'node:crypto';
import { isCount } from '../../archive/format/json-shape.ts';
import { offsiteError } from '../../errors/offsite.ts';
import { isSignedBy } from '../../verify/ed25519.ts';
import {
  canonicalBytes,
  type Fields,
  fromBase64,
  fromHex,
  hasOnly,
  readCanonical,
} from './canonical.ts';
import type { Sign } from './copy-file.ts';
import type { OpeningKey, SealingKey } from './header.ts';
import { idOfName, recipientName } from './names.ts';
import { open } from './open.ts';
import type { KeyObject } from './recipients.ts';
import { seal } from './seal.ts';

/** Settings as anybody can see them: encrypted, and signed like a manifest. */
export interface ClearSettings {
  readonly name: string;
  /** Counts the settings of a copy, from 0. */
  readonly sequence: number;
  /** By which a writer recognises equal settings without opening them. */
  readonly mark: string;
  readonly sealed: Buffer;
}

/** Bytes of an object below `settings/`. */
export const MOST_SETTINGS_BYTES = 4 * 1024 * 1024;
const MARK = 'copy settings 1';
const DOMAIN = Buffer.from('mailkeep copy settings 1\n', 'utf8');
const NAMES = ['mailkeep', 'copy', 'id', 'sequence', 'mark', 'sealed', 'signature'];

/** Returns the mark of settings. */
export function settingsMark(nameKey: Buffer, text: Buffer): string {
  const digest = hash('sha256', text);
  return createHmac('sha256', nameKey)
    .update(`mailkeep copy name 1\nsettings\n${digest}\n`, 'utf8')
    .digest('hex')
    .slice(0, 32);
}

/** Returns an object that carries settings. */
export async function encodeSettings(
  text: Buffer,
  { sequence, mark }: Pick<ClearSettings, 'sequence' | 'mark'>,
  { sealing, sign }: { readonly sealing: SealingKey; readonly sign: Sign },
): Promise<KeyObject> {
  const { name, id } = recipientName('settings');
  const parts: Buffer[] = [];
  const plain = (async function* () {
    yield text;
  })();
  for await (const part of seal(sealing, { kind: 'settings', name }, text.length, plain).bytes) {
    parts.push(part);
  }
  const fields = {
    mailkeep: MARK,
    copy: sealing.copyId.toString('hex'),
    ...{ id, sequence, mark },
    sealed: Buffer.concat(parts).toString('base64'),
  };
  const signature = sign(signedBytes(fields)).toString('base64');
  return { name, bytes: canonicalBytes({ ...fields, signature }) };
}

/**
 * Returns what an object below `settings/` shows without a key, if a trusted key signed it.
 *
 * @throws `copy-manifest-damaged`
 */
export function decodeSettings(
  { name, bytes }: KeyObject,
  trusted: { readonly copyId: Buffer; readonly signers: readonly Buffer[] },
): ClearSettings {
  const damaged = (reason: 'shape' | 'signature' | 'other-copy' | 'name') =>
    offsiteError('copy-manifest-damaged', { name, reason });
  const fields = readCanonical(bytes, MOST_SETTINGS_BYTES, isShaped);
  const made = fromBase64(fields?.signature, 64);
  const sealed = fromBase64(fields?.sealed);
  if (fields === undefined || made === undefined || sealed === undefined) throw damaged('shape');
  const { signature: _, ...signed } = fields;
  const isTrusted = trusted.signers.some((key) => isSignedBy(key, signedBytes(signed), made));
  if (!isTrusted) throw damaged('signature');
  if (fields.copy !== trusted.copyId.toString('hex')) throw damaged('other-copy');
  if (fields.id !== idOfName('settings', name)) throw damaged('name');
  return { name, sequence: Number(fields.sequence), mark: String(fields.mark), sealed };
}

/** Returns the text of settings. @throws `copy-object-damaged`, `copy-key-unknown` */
export async function openSettings(
  { name, sealed }: ClearSettings,
  opening: OpeningKey,
): Promise<Buffer> {
  const parts: Buffer[] = [];
  const bytes = (async function* () {
    yield sealed;
  })();
  for await (const part of open(opening, { kind: 'settings', name }, bytes)) parts.push(part);
  return Buffer.concat(parts);
}

function signedBytes(fields: Fields): Buffer {
  return Buffer.concat([DOMAIN, canonicalBytes(fields)]);
}

function isShaped(fields: Fields): boolean {
  const { mailkeep, sequence, ...texts } = fields;
  return (
    hasOnly(fields, NAMES) &&
    mailkeep === MARK &&
    isCount(sequence) &&
    Object.values(texts).every((one) => typeof one === 'string') &&
    fromHex(fields.mark, 16) !== undefined
  );
}
