// Separate from quotas.ts, which every client command loads with the settings.
import { Refusal } from './errors.ts'
import { type QuotaKind, quotaKinds } from './quotas.ts'

type Excess = { readonly kind: QuotaKind; readonly limit: number; readonly used: number; readonly added: number }

const number = new Intl.NumberFormat('en')

export const beyondQuota = ({ kind, limit, used, added }: Excess, cause?: unknown): Refusal =>
  new Refusal(
    'ERR_QUOTA',
    `The quota of this account is ${number.format(limit)} ${quotaKinds[kind].called}. It has ${number.format(used)}, and this change would add ${number.format(added)}. Delete what you no longer need, or ask the operator of the installation to raise the quota.`,
    { cause, details: { kind, limit: String(limit), used: String(used), added: String(added) } },
  )

/** Constraint that the database names when a quota is exceeded; the error's detail says which quota. */
export const quotaConstraint = 'account_quota'
export const excessIn = (error: unknown): Excess => JSON.parse((error as { detail: string }).detail)
