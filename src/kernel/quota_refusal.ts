// Apart from quotas.ts, which every command of the client loads with the settings.
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

/** The constraint that the database names when it refuses to exceed a quota; the detail of its error says which. */
export const quotaConstraint = 'account_quota'
export const excessIn = (error: unknown): Excess => JSON.parse((error as { detail: string }).detail)
