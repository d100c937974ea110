import { errorsOf } from './mailkeep-error.ts';

/** Codes of the configuration room, with the facts that fill their sentences. */
export interface ConfigFacts {
  /** No file at any of the places that were searched, or none at the one that was asked for. */
  readonly 'config-not-found': { readonly searched: readonly string[] };
  /** `reason` is the errno name, such as EACCES. */
  readonly 'config-unreadable': { readonly file: string; readonly reason: string };
  /** `line` and `column` count from 1; null if the parser does not report them. */
  readonly 'config-not-json': {
    readonly file: string;
    readonly line: number | null;
    readonly column: number | null;
  };
  /**
   * Lists of one length: the path of each wrong field, what stood there (never a secret; empty for a field that is
   * unknown), what belongs there (for an unknown field, the names there are), and what was probably meant (or empty).
   */
  readonly 'config-invalid': {
    readonly file: string;
    readonly paths: readonly string[];
    readonly found: readonly string[];
    readonly expected: readonly string[];
    readonly suggestions: readonly string[];
  };
  readonly 'config-exists': { readonly file: string };
  /** Where the token was looked for: `env NAME`, `file PATH`, `credential NAME`. */
  readonly 'token-missing': { readonly source: string; readonly name: string };
  readonly 'token-empty': { readonly source: string; readonly name: string };
  readonly 'token-unreadable': {
    readonly source: string;
    readonly name: string;
    readonly reason: string;
  };
  /** The text holds white space or control characters inside: it cannot be sent in a header. */
  readonly 'token-unusable': { readonly source: string; readonly name: string };
  /** Where the address of a fleet's registry was looked for; `reason` is an errno, or the code that a token would have. */
  readonly 'registry-address-missing': {
    readonly source: string;
    readonly name: string;
    readonly reason: string;
  };
}

/** An error of family `config`: the user's settings are the cause, and exit code 2 the effect. */
export const configError = errorsOf<ConfigFacts>('config');

/** A port of the daemon's that cannot be listened on; `section` is the one of the configuration that names it. */
export interface ListenFacts {
  readonly 'cannot-listen': {
    readonly section: string;
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
}

/** Exit code 2: the configuration names an address that is taken, not this machine's, or not allowed. */
export const listenError = errorsOf<ListenFacts>('config');
