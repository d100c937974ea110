import { createHash, createPrivateKey, hkdfSync, type KeyObject } from 'node:crypto';
import { publicKeyOf } from '../copies/format/sealed-object.ts';
import { LocalKey, rawPublicKey } from '../copies/local-key.ts';
import { KEY_BYTES } from '../core/ed25519.ts';
import type { FleetKeys } from '../fleet/secrets.ts';

/** Keys of a shard's copy in the bucket. */
export interface ShardKeys {
  readonly key: LocalKey;
  readonly signingKey: KeyObject;
}

/** DER encoding that precedes the 32 bytes of an Ed25519 private key (RFC 8410). */
const ED25519_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** @param seed 32 bytes */
export function ed25519Key(seed: Buffer): KeyObject {
  const key = Buffer.concat([ED25519_PREFIX, seed]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

/**
 * Derives the keys of a shard from those of the fleet (HKDF-SHA256, RFC 5869), so that nothing but the key file is needed
 * to open the bucket. The first key of the file seals and signs, all of them open and are trusted. The last one names
 * objects: without it, everything is uploaded again.
 *
 * @param fleet UUID of the fleet
 * @param to address of the bucket and prefix
 */
export function shardKeys(keys: FleetKeys, fleet: string, shard: number, to: string): ShardKeys {
  const each = keys.names.map((name) => keys.key(name) ?? Buffer.alloc(0));
  const derived = (secret: Buffer, use: string) =>
    Buffer.from(
      hkdfSync('sha256', secret, fleet, `mailkeep fleet shard 1\n${shard}\n${use}`, KEY_BYTES),
    );
  const signing = each.map((secret) => ed25519Key(derived(secret, 'signer')));
  const privateKeys = each.map((secret) => derived(secret, 'copy'));
  const [first, last] = [privateKeys[0], each.at(-1)];
  const [signingKey] = signing;
  if (first === undefined || last === undefined || signingKey === undefined) {
    throw new TypeError('a fleet has at least one key');
  }
  const copyId = createHash('sha256').update(`mailkeep fleet shard 1\n${fleet}\n${shard}\n`);
  return {
    key: new LocalKey({
      copyId: copyId.digest('hex').slice(0, 32),
      to,
      publicKey: publicKeyOf(first),
      nameKey: derived(last, 'names'),
      privateKeys,
      signers: signing.map((key) => rawPublicKey(key)),
    }),
    signingKey,
  };
}
