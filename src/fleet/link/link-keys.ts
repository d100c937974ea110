import { constants, hkdfSync } from 'node:crypto';
import type { FleetKeys } from '../secrets.ts';

/** What two nodes of one fleet have in common. */
export interface LinkSecrets {
  /** The UUID of the fleet. */
  readonly fleet: string;
  /** Reads the keys: a rotation may have added one since. */
  readonly keys: () => FleetKeys;
}

/**
 * TLS 1.2 with keys that both sides have (RFC 4279): Node.js has no such keys in TLS 1.3. The suite (RFC 7905) has forward
 * secrecy by an ephemeral exchange, and authenticated encryption. Nothing is resumed: a ticket would outlive a rotation, and
 * whoever had the key of the tickets could read what was recorded.
 */
export const LINK_TLS = {
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
} as const;

const INFO = 'mailkeep fleet link 1';
const IDENTITY = 'mailkeep-link-1 ';
const BYTES = 32;

/**
 * Derives the key of links from a key of the fleet (HKDF with SHA-256, RFC 5869). The fleet is part of it, so that two fleets
 * whose files have the same key do not reach each other.
 */
export function linkKey(key: Buffer, fleet: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, fleet, INFO, BYTES));
}

/** What a node calls a key when it begins a link. It is sent in the clear, as names of keys are no secrets. */
export function identityOf(keyId: string): string {
  return `${IDENTITY}${keyId}`;
}

/** Returns the key that an identity names; null if this node does not have it. */
export function keyOfIdentity({ fleet, keys }: LinkSecrets, identity: string): Buffer | null {
  if (!identity.startsWith(IDENTITY)) return null;
  const key = keys().key(identity.slice(IDENTITY.length));
  return key === undefined ? null : linkKey(key, fleet);
}
