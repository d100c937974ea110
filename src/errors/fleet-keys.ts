import { errorsOf } from './mailkeep-error.ts';

/** Codes about the keys of a fleet and what they encrypt. No fact holds a key or a secret. */
export interface FleetKeyFacts {
  /** `line` counts from 1; 0 where it is about all of them. */
  readonly 'fleet-key-invalid': {
    readonly source: string;
    readonly line: number;
    readonly problem: 'shape' | 'repeated' | 'none';
  };
  /** `reason` is an errno. */
  readonly 'fleet-key-file-unreadable': { readonly file: string; readonly reason: string };
  readonly 'fleet-key-file-unwritable': { readonly file: string; readonly reason: string };
  /** Another process writes the file, or one was interrupted: `temporary` is what it writes to. */
  readonly 'fleet-key-file-busy': { readonly file: string; readonly temporary: string };
  /** A key of that name is in the file, and is not the one that encrypts. */
  readonly 'fleet-key-exists': { readonly file: string; readonly name: string };
  /** The registry has secrets of keys that are not in the file. `found` is whether there is a file. */
  readonly 'fleet-keys-elsewhere': {
    readonly file: string;
    readonly found: boolean;
    readonly keyIds: readonly string[];
  };
  /** The secret was encrypted by a key that this machine does not have. */
  readonly 'fleet-key-unknown': {
    readonly archive: number;
    readonly purpose: string;
    readonly keyId: string;
  };
  /** It was changed, moved from another archive, or encrypted by another key of that id. */
  readonly 'fleet-secret-damaged': {
    readonly archive: number;
    readonly purpose: string;
    readonly keyId: string;
  };
}

export const fleetKeyError = errorsOf<FleetKeyFacts>({
  'fleet-key-invalid': 'config',
  'fleet-key-file-unreadable': 'config',
  'fleet-key-file-unwritable': 'disk',
  'fleet-key-file-busy': 'in-use',
  'fleet-key-exists': 'usage',
  'fleet-keys-elsewhere': 'config',
  'fleet-key-unknown': 'config',
  'fleet-secret-damaged': 'damage',
});
