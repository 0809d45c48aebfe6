// Formats failures for Terraform: a sentence, details, and the attribute at fault, which Terraform locates by file and
// line.
import type { FieldError } from '../../clients/typescript/src/errors.ts'
import { Refused } from '../cli/call.ts'
import { Failure } from '../cli/exits.ts'
import { log } from '../cli/output/terminal.ts'
import { type ErrorCode, errorCatalog } from '../kernel/errors.ts'

type Step = { attribute_name: string } | { element_key_int: number }
type Path = { steps: Step[] }
export type Diagnostic = { severity: number; summary: string; detail: string; attribute?: Path }
const [error, warning] = [1, 2]

export const attribute = (name: string): Path => ({ steps: [{ attribute_name: name }] })

/** `backend.backend_id` and `ip_policy_ids[2]`, as the service names them. */
export const pathOf = (field: string): Path => ({
  steps: [...field.matchAll(/([^.[\]]+)|\[(\d+)\]/g)].map(([, name, index]) =>
    index === undefined ? { attribute_name: name ?? '' } : { element_key_int: Number(index) },
  ),
})

/** `fault` completes the sentence '<field> …'. */
export const failureAt = (place: readonly (string | number)[], fault: string): Diagnostic => ({
  severity: error,
  summary: `${place.join('.')} ${fault}.`,
  detail: '',
  attribute: {
    steps: place.map((step) => (typeof step === 'number' ? { element_key_int: step } : { attribute_name: step })),
  },
})

/** Hints for errors that Terraform users fix differently. */
const ownHints: Readonly<Partial<Record<ErrorCode, string>>> = {
  ERR_SELF_LOCKOUT:
    'Allow the address of this machine first, or set allow_self_lockout = true in the provider block for one apply.',
  ERR_UNAUTHENTICATED:
    'The token is mistyped, deleted, rotated or expired, its owner is inactive, or this address is not among its allowed ranges.',
  ERR_RATE_LIMITED:
    'The provider has waited for five minutes. Use a smaller -parallelism, or ask the operator to raise the limit of the account.',
  ERR_SERVICE_VERSION: 'The service and this provider are of different versions.',
  ERR_ROUTE_NOT_FOUND: 'The service is probably older than this provider.',
  ERR_METHOD_NOT_ALLOWED: 'The service is probably older than this provider.',
}

function refusal({ code, body, status }: Refused, attributes: readonly string[]): Diagnostic[] {
  const { operation_id, field, errors: _, ...others } = body.details ?? {}
  const detail = [
    ...Object.entries(others).map(([name, value]) => `${name.replaceAll('_', ' ')}: ${value}`),
    ownHints[code as ErrorCode] ?? errorCatalog[code as ErrorCode]?.hint ?? '',
    `(${[code || status, operation_id].filter(Boolean).join(', ')})`,
  ]
  const faults: Partial<FieldError>[] = body.errors?.length ? body.errors : [{ ...(field && { field }) }]
  return faults.map(({ field: at = '', msg }) => ({
    severity: error,
    summary: msg ?? body.msg ?? `The service answered ${status} without an explanation.`,
    detail: detail.filter(Boolean).join('\n'),
    ...(attributes.includes(/^\w*/.exec(at)?.[0] ?? '') && { attribute: pathOf(at) }),
  }))
}

/** `attributes`: the valid first elements of a path. */
export function diagnosticsOf(failure: unknown, attributes: readonly string[] = []): Diagnostic[] {
  if (failure instanceof Refused) return refusal(failure, attributes)
  if (failure instanceof Failure) return [plainDiagnostic(error, failure)]
  // A bug: its trace is in Terraform's log.
  log(failure instanceof Error ? (failure.stack ?? failure.message) : String(failure))
  return [{ severity: error, summary: 'The provider failed.', detail: String(failure) }]
}

export const warningOf = (failure: Failure): Diagnostic => plainDiagnostic(warning, failure)

/** Omits hints about command-line flags. */
const plainDiagnostic = (severity: number, { message, hints }: Failure): Diagnostic => ({
  severity,
  summary: message,
  detail: hints.filter((hint) => !hint.includes('--')).join('\n'),
})
