import { hasCode } from '../../errors/mailkeep-error.ts';
import { FailurePage } from '../pages/plain-pages.tsx';
import type { LookAnswer } from '../reading/health/health-content.ts';
import { ownForm } from './form-body.ts';
import { type ArchiveParts, page, seeOther, type WebApp } from './request-context.ts';

/**
 * Has the daemon look for new mail now: for a script, and as a form. Limited sign-ins ask for neither: see
 * `limited-paths.ts`. Who may read some mailboxes starts nothing for all of them.
 */
export function lookRoutes(app: WebApp, parts: ArchiveParts): void {
  const { assets } = parts;
  app.post('/api/look', async (context) => context.json({ data: { looking: await parts.look() } }));
  app.post('/look', async (context) => {
    if ((await ownForm(parts, context)) === null)
      return page(context, <FailurePage assets={assets} kind="stale-form" />, 403);
    return seeOther(context, `/health?look=${await lookAnswered(parts)}`);
  });
}

async function lookAnswered({ look }: Pick<ArchiveParts, 'look'>): Promise<LookAnswer> {
  try {
    return (await look()) ? 'asked' : 'nobody';
  } catch (error) {
    if (hasCode(error, 'daemon-version')) return 'version';
    throw error;
  }
}
