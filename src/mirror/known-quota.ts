import type { ScopeValue } from '../state/scopes.ts';
import type { QuotaRecord } from '../wire/mailbox-records.ts';

/**
 * Returns the quota of a mailbox as the wire has it, from what the origin last reported. One that it never reported is not
 * supported.
 */
export function quotaAsReported(known: ScopeValue<'quota'> | undefined): QuotaRecord {
  const quotas = (known?.resources ?? []).map(({ name, usage, limit }) => ({
    resourceName: name,
    usage,
    limit: limit ?? 0,
    percentage: limit === null || limit === 0 ? 0 : Math.round((usage / limit) * 100),
  }));
  const storage = quotas.find(({ resourceName }) => resourceName === 'STORAGE');
  return {
    quotas,
    totalUsage: storage?.usage ?? 0,
    totalLimit: storage?.limit ?? 0,
    totalPercentage: storage?.percentage ?? 0,
    supported: quotas.length > 0,
  };
}
