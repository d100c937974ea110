import { addAccount, changeState } from './accounts.ts';
import { condemn, condemnAbandoned, markGone, sweep, sweepAgain } from './collection.ts';
import { commit, decidePurge, roll } from './commits.ts';
import { addArchive, addTenant, initFleet, noteFailover, putSecret, saveMemory } from './fleet.ts';
import { askForget, settleForgets } from './forgets.ts';
import {
  beginImport,
  callOffImport,
  coverImported,
  finishImport,
  resumeImport,
  tailImported,
  trimImport,
} from './imports.ts';
import { claim, enterCache, leaveCache, release, resolve } from './leases.ts';
import { endPurge } from './purges.ts';
import {
  beginSession,
  drainNode,
  drainSession,
  endSession,
  markDead,
  removeSessions,
  renew,
  strikeNode,
} from './sessions.ts';
import { coverChunk, coverSegment, putSnapshot, register } from './uploads.ts';
import { forgetWebhook, keepWebhook } from './webhooks.ts';

/** Every transaction that writes to the registry. Tests hold each of them to what it refuses. */
export const TRANSACTIONS = {
  addAccount,
  addArchive,
  addTenant,
  askForget,
  beginImport,
  beginSession,
  callOffImport,
  changeState,
  claim,
  commit,
  condemn,
  condemnAbandoned,
  coverChunk,
  coverImported,
  coverSegment,
  decidePurge,
  drainNode,
  drainSession,
  endPurge,
  endSession,
  enterCache,
  finishImport,
  forgetWebhook,
  initFleet,
  keepWebhook,
  leaveCache,
  markDead,
  markGone,
  noteFailover,
  putSecret,
  putSnapshot,
  register,
  release,
  removeSessions,
  renew,
  resolve,
  resumeImport,
  roll,
  saveMemory,
  settleForgets,
  strikeNode,
  sweep,
  sweepAgain,
  tailImported,
  trimImport,
} as const;
