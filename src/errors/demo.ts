import { errorsOf } from './mailkeep-error.ts';

/** Codes of the demo of a fleet, with the facts that fill their sentences. */
export interface DemoFacts {
  /** `packages` are Debian's. */
  readonly 'demo-programs-missing': {
    readonly programs: readonly string[];
    readonly packages: readonly string[];
  };
  /** PostgreSQL does not run as root, and its package's user is missing. */
  readonly 'demo-no-owner': { readonly user: string };
  /** `log`: the last that it wrote. */
  readonly 'demo-server-ended': { readonly program: string; readonly log: string };
  readonly 'demo-server-late': { readonly program: string; readonly log: string };
}

/** An error of the demo: nothing of the user's own is concerned. */
export const demoError = errorsOf<DemoFacts>({
  'demo-programs-missing': 'config',
  'demo-no-owner': 'config',
  'demo-server-ended': 'disk',
  'demo-server-late': 'disk',
});
