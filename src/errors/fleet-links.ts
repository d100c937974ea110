import { errorsOf } from './mailkeep-error.ts';

/** Codes about reading at any node of a fleet. */
export interface FleetLinkFacts {
  /** `reason` is an errno. */
  readonly 'fleet-cannot-listen': {
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
  /** `reason` is an errno, `no address`, or `no answer`. */
  readonly 'fleet-node-unreachable': {
    readonly node: string;
    readonly address: string;
    readonly reason: string;
  };
  /** None of the keys of this node is one of the other's, or what listens there is no node of the fleet. */
  readonly 'fleet-link-refused': { readonly node: string; readonly address: string };
  /** Nobody holds the account, and no worker could claim it. `full`: those that run take no more accounts. */
  readonly 'fleet-no-reader': { readonly account: string; readonly full: boolean };
  /** Who holds the account changed more often than it was looked up again. */
  readonly 'fleet-reading-moved': { readonly account: string };
  /** The holder cannot open the account: `code` is its error. */
  readonly 'fleet-reading-unready': {
    readonly node: string;
    readonly account: string;
    readonly code: string;
  };
  /** Too many read at the holder. */
  readonly 'fleet-reading-busy': { readonly node: string };
  /** The link, the node or its reader ended before the answer did. */
  readonly 'fleet-answer-cut': { readonly node: string };
  /** The same of an export: what it has written so far stays. */
  readonly 'fleet-export-cut': { readonly node: string };
  /** The holder cannot give what is exported, or says what is not understood; `reason` is what it says. */
  readonly 'fleet-export-unanswered': { readonly node: string; readonly reason: string };
  /** What was asked for is not answered at another node; `what` is a command or an option. */
  readonly 'fleet-reading-refused': { readonly what: string };
}

export const fleetLinkError = errorsOf<FleetLinkFacts>(
  'origin',
  {
    'fleet-cannot-listen': 'config',
    'fleet-link-refused': 'config',
    'fleet-reading-busy': 'in-use',
    'fleet-reading-refused': 'usage',
  },
  ['fleet-node-unreachable', 'fleet-no-reader', 'fleet-reading-moved', 'fleet-answer-cut'],
);
