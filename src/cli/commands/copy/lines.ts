/** What `mailkeep copy` was given. */
export interface CopyLine {
  readonly to?: string;
  readonly encrypt?: boolean;
  readonly rebuild?: boolean;
  readonly refresh?: boolean;
  readonly keep?: number;
  readonly lockDays?: number;
  /** Bytes a second. */
  readonly limitRate?: number;
}

/** Where the user said that what opens a copy is. */
export interface KeyLine {
  readonly recoveryKeyFile?: string | undefined;
  readonly passphraseFile?: string | undefined;
  readonly identityFile?: string | undefined;
}

/** The same where those options name something new. */
export interface OpenWithLine {
  readonly openWithRecoveryKey?: string;
  readonly openWithPassphrase?: string;
  readonly openWithIdentity?: string;
}

export interface ListLine {
  readonly to?: string;
}

/** What `mailkeep copy key add` was given: who is to open the copy as well. */
export interface AddLine extends OpenWithLine {
  readonly to?: string;
  readonly recoveryKeyFile?: string;
  readonly passphraseFile?: string;
  readonly age?: readonly string[];
  readonly label?: string;
}

/** What `mailkeep copy key rotate` was given: who is to open the copy from now on. */
export interface RotateLine extends OpenWithLine {
  readonly to?: string;
  readonly recoveryKeyFile?: string;
  readonly passphraseFile?: string;
  readonly reencrypt?: boolean;
  /** Bytes a second. */
  readonly limitRate?: number;
}

export interface FromLine extends CopyLine, KeyLine {
  /** Ed25519, 32 bytes: who must have begun the copy. */
  readonly signer?: Buffer;
  readonly from?: string;
  readonly atCommit?: number;
  readonly atLeast?: number;
}

export interface InitLine {
  readonly to?: string;
  readonly createBucket?: boolean;
  readonly objectLock?: boolean;
  readonly recoveryKeyFile?: string;
  readonly passphraseFile?: string;
  readonly age?: readonly string[];
  readonly writeOnly?: boolean;
}

export interface AdoptLine extends KeyLine {
  /** Ed25519, 32 bytes: who must have begun the copy. */
  readonly signer?: Buffer;
  readonly to?: string;
  readonly olderKey?: boolean;
}
