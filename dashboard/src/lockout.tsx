import { Problem } from './api/problem.ts'
import { brokenTests } from './broken_tests.tsx'
import { Button } from './ui/button.tsx'
import { Icon } from './ui/icons.tsx'
import { ProblemNote } from './ui/problem.tsx'

type Props = {
  error: unknown
  /** Allows the refused address, then makes the change. */
  onAllow: (address: string) => void
  onInsist: () => void
  /** Repeats the change unmodified. */
  onRepeat?: () => void
  isPending: boolean
}

export const isLockout = (error: unknown): error is Problem =>
  error instanceof Problem && error.code === 'ERR_SELF_LOCKOUT'

/** Explains a change refused because it would lock the caller out, and offers ways to continue. */
export function LockoutNote({ error, onAllow, onInsist, onRepeat, isPending }: Props) {
  if (!isLockout(error)) return (onRepeat && brokenTests(error, onRepeat, isPending)) ?? <ProblemNote error={error} />
  const { source_ip: address, operation_id } = error.details
  return (
    <div className="note warned" role="alert">
      <Icon name="warned" />
      <div>
        <p className="strong">This change would lock you out. Nothing was changed.</p>
        <p>
          Your address is <span className="mono">{address ?? 'unknown'}</span>. After this change no rule would allow
          it, and you could not undo the change here.
        </p>
        <div className="actions start">
          {address && (
            <Button kind="primary" isPending={isPending} onPress={() => onAllow(address)}>
              {`Allow ${address} and save`}
            </Button>
          )}
          <Button isPending={isPending} onPress={onInsist}>
            Save anyway
          </Button>
        </div>
        <p className="fine">
          If you save anyway, the operator of the server can restore your access with{' '}
          <span className="mono">gatehouse ip-restrictions release</span>.
        </p>
        <p className="fine mono">ERR_SELF_LOCKOUT · {operation_id}</p>
      </div>
    </div>
  )
}
