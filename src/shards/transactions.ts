import {
  addAccounts,
  changeAccount,
  putSecret,
  recordAccountErrors,
  refreshSecret,
  saveSearch,
  updateAccount,
} from './accounts.ts';
import { holdNewShard } from './adopt.ts';
import { claim, moveShard, release, reportFailure, reportRecovery } from './claims.ts';
import { condemnAbandoned, markGone, sweep } from './collection.ts';
import { addGrant, recordUse, redeemLink, revokeGrant } from './grants.ts';
import { decidePurge, endPurges, merged, ranAhead, removeNode, wiped } from './purges.ts';
import { recoverShard } from './recovery.ts';
import { importRegistry } from './registry-export.ts';
import { createFleet } from './schema.ts';
import {
  beginSession,
  endSession,
  markDead,
  removeSessions,
  renew,
  setDraining,
} from './sessions.ts';
import { abandon, register, ship } from './ships.ts';

/** Every function that writes to the registry. The zombie tests cover each of them. */
export const TRANSACTIONS = {
  abandon,
  addAccounts,
  addGrant,
  beginSession,
  changeAccount,
  claim,
  condemnAbandoned,
  createFleet,
  decidePurge,
  endPurges,
  endSession,
  holdNewShard,
  importRegistry,
  markDead,
  markGone,
  merged,
  moveShard,
  putSecret,
  ranAhead,
  recordAccountErrors,
  recordUse,
  recoverShard,
  redeemLink,
  refreshSecret,
  register,
  release,
  removeNode,
  removeSessions,
  renew,
  reportFailure,
  reportRecovery,
  revokeGrant,
  saveSearch,
  setDraining,
  ship,
  sweep,
  updateAccount,
  wiped,
} as const;
