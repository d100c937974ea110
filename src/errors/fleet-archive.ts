import { errorsOf } from './mailkeep-error.ts';

/** Codes of what the registry has of an archive. */
export interface FleetArchiveFacts {
  /**
   * What the registry has does not make up the log. `missing`: nothing holds the commit. `twice`: more than one thing does.
   * `place`: the segments do not follow each other. `end`: the last commit is not the one that the registry names.
   */
  readonly 'manifest-damaged': {
    readonly archive: number;
    readonly commit: number;
    readonly problem: 'missing' | 'twice' | 'place' | 'end';
  };
  /** What is left to do of a purge is not what was written there; `purges` is its number. */
  readonly 'purge-damaged': { readonly archive: number; readonly purges: number };
  /** A request to forget is not what this version writes there. */
  readonly 'forget-damaged': { readonly archive: number; readonly request: string };
  /** What the registry has of the archive's state cannot be inflated; `reason` is a code of zlib. */
  readonly 'memory-damaged': { readonly archive: number; readonly reason: string };
}

export const fleetArchiveError = errorsOf<FleetArchiveFacts>('damage');
