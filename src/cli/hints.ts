// What to do about a refusal, for people who typed a command. The catalog addresses those who write requests.
import { errorCatalog } from '../kernel/errors.ts'
import { operations } from './operations.ts'

/** Codes whose fix differs between a request and a command. */
const ownHints: Readonly<Partial<Record<keyof typeof errorCatalog, string>>> = {
  ERR_ROUTE_NOT_FOUND: 'The service is probably older than this command. Compare: gatehouse upgrade check',
  ERR_METHOD_NOT_ALLOWED: 'The service is probably older than this command. Compare: gatehouse upgrade check',
  ERR_SERVICE_VERSION: 'The service and this command are of different versions. Compare: gatehouse upgrade check',
  ERR_UNAUTHENTICATED:
    "The token is mistyped, deleted, rotated or expired, its owner is inactive, or this address is not among its allowed ranges. 'gatehouse auth status' shows where it is set.",
  ERR_TOO_MANY_ATTEMPTS: 'Correct the token, and wait a minute before you try again.',
  ERR_RATE_LIMITED: 'Wait a minute. If the limit is too low, ask the operator to raise it for your account.',
  ERR_TOO_MANY_OPERATIONS: 'Wait a moment, and run fewer commands at once.',
  ERR_INVALID_FIELD: '--help after the command says what each flag accepts.',
  ERR_PRECONDITION_FAILED:
    'It has changed since you read it. Look at it again: --verbose prints its current ETag for --if-match.',
  ERR_IDEMPOTENCY_KEY_USED: 'Use a new --idempotency-key, or leave it out: each command then gets its own.',
  ERR_API_KEY_EXPIRED:
    'Ask an admin to run gatehouse api-keys update <id> --expires-at TIME or --no-expires-at, then rotate the key. Or create another key.',
  ERR_SELF_LOCKOUT:
    "Allow your own address first ('gatehouse caller' shows it), or repeat the command with --allow-self-lockout.",
  ERR_UNUSUAL_CHANGE:
    'Compare the numbers with what you meant to change; --dry-run shows the whole change. If it is right, repeat the command with --confirm.',
  ERR_ACCESS_TEST_FAILED:
    'Correct the change. If the test is out of date, change or delete it first: gatehouse access-tests list. An admin can repeat the command with --ignore-access-tests.',
  ERR_IP_REFUSED:
    "Run the command from an allowed address. An admin can look up the operation id with 'gatehouse ip-refusals list' to see which rule decided.",
  ERR_TLS_CERTIFICATE_IN_USE:
    "Give the domains another certificate first. To renew a certificate, replace its chain and key with 'gatehouse tls-certificates update'.",
  ERR_UNAVAILABLE: 'Try again in a moment. GET /readyz of the service says what is wrong.',
}

/** The hint for a refusal in terms of commands; undefined for a code that this version does not know. */
export function hintOf(code: string, url: string): string | undefined {
  const { pathname, origin } = new URL(url)
  if (code === 'ERR_ROUTE_NOT_FOUND' && pathname !== '/')
    return `The URL must be that of the API. Try it without ${pathname}: ${origin}.`
  const known = code as keyof typeof errorCatalog
  const own = ownHints[known]
  if (own) return own
  return (
    errorCatalog[known]?.hint
      .split(/(?<=\.) /)
      // The details follow below the message.
      .filter((sentence) => !sentence.includes('`details.'))
      .join(' ')
      .replaceAll(
        /`(GET|POST|PATCH|PUT|DELETE) (\/[^`]*)`/g,
        (request, method, path) => commandFor(method, path) ?? request,
      )
  )
}

function commandFor(method: string, path: string): string | undefined {
  const found = operations.find((operation) => operation.method === method && operation.path === path)
  return found && `'gatehouse ${[...found.words, ...found.positionals.map(({ name }) => `<${name}>`)].join(' ')}'`
}
