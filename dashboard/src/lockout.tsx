import { Problem } from './api/problem.ts'
import { Button } from './ui/button.tsx'
import { Icon } from './ui/icons.tsx'
import { ProblemNote } from './ui/problem.tsx'

type Props = {
  error: unknown
  /** Allows the address where it would be refused, and then makes the change. */
  onAllow: (address: string) => void
  onInsist: () => void
  isPending: boolean
}

export const isLockout = (error: unknown): error is Problem =>
  error instanceof Problem && error.code === 'ERR_SELF_LOCKOUT'

/** A change that the service refused so that nobody saws off the branch they sit on: what it means, and the way out. */
export function LockoutNote({ error, onAllow, onInsist, isPending }: Props) {
  if (!isLockout(error)) return <ProblemNote error={error} />
  const { source_ip: address, operation_id } = error.details
  return (
    <div className="note warned" role="alert">
      <Icon name="warned" />
      <div>
        <p className="strong">This would lock you out, so nothing was changed.</p>
        <p>
          You come from <span className="mono">{address ?? 'an address that could not be read'}</span>. After this
          change no rule would let you in from there, and you could not undo it here.
        </p>
        <div className="actions start">
          {address && (
            <Button kind="primary" isPending={isPending} onPress={() => onAllow(address)}>
              {`Allow ${address} and save`}
            </Button>
          )}
          <Button isPending={isPending} onPress={onInsist}>
            Save it all the same
          </Button>
        </div>
        <p className="fine">
          If you save it all the same, whoever runs the server can let you in again with{' '}
          <span className="mono">gatehouse ip-restrictions release</span>.
        </p>
        <p className="fine mono">ERR_SELF_LOCKOUT · {operation_id}</p>
      </div>
    </div>
  )
}
