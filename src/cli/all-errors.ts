/**
 * Loads the messages for all errors. An error from another thread, process, node or earlier run can have a code whose
 * module has not been loaded here.
 */
import '../archive/errors.ts';
import '../catalog/errors.ts';
import '../copies/errors.ts';
import '../copies/format/errors.ts';
import '../core/error-tables.ts';
import '../daemon/errors.ts';
import '../imap/errors.ts';
import '../mail/errors.ts';
import '../sandbox/errors.ts';
import '../service/errors.ts';
import '../fleet/errors.ts';
import '../sync/errors.ts';
import '../transfer/errors.ts';
import '../verify/errors.ts';
import '../web/errors.ts';
import './errors.ts';
