import { Problem } from './api/problem.ts'
import { Button } from './ui/button.tsx'
import { Icon } from './ui/icons.tsx'

const number = new Intl.NumberFormat('en')

export const isUnusual = (error: unknown): error is Problem =>
  error instanceof Problem && error.code === 'ERR_UNUSUAL_CHANGE'

type Props = { error: Problem; onConfirm: () => void; isPending: boolean }

/** Shows how much a change of rules would remove and add, which was refused because it is unusually much. */
export function UnusualNote({ error, onConfirm, isPending }: Props) {
  const { before, after, removed, added, operation_id } = error.details
  const shown = (count = '') => number.format(Number(count))
  return (
    <div className="note warned" role="alert">
      <Icon name="warned" />
      <div>
        <p className="strong">This change is unusually large. Nothing was changed.</p>
        <p>
          Of {shown(before)} rules it removes {shown(removed)}, and it adds {shown(added)}. {shown(after)} would be
          left.
        </p>
        <div className="actions start">
          <Button kind="danger" isPending={isPending} onPress={onConfirm}>
            {added === '0' ? 'Remove anyway' : 'Replace anyway'}
          </Button>
        </div>
        <p className="fine mono">ERR_UNUSUAL_CHANGE · {operation_id}</p>
      </div>
    </div>
  )
}
