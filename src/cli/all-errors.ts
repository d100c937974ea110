/**
 * Loads what users read about every error. An error of another thread, process or node, or of an earlier run, can have
 * any code, and nothing else in this process need have loaded the sentence about it.
 */
import '../archive/errors.ts';
import '../catalog/errors.ts';
import '../copies/errors.ts';
import '../copies/format/errors.ts';
import '../core/error-tables.ts';
import '../daemon/errors.ts';
import '../fleet/errors.ts';
import '../mail/errors.ts';
import '../registry/errors.ts';
import '../sandbox/errors.ts';
import '../service/errors.ts';
import '../sync/errors.ts';
import '../transfer/errors.ts';
import '../verify/errors.ts';
import '../web/errors.ts';
import './errors.ts';
