import { type ReactNode, useState } from 'react'
import { useMayChange } from '../../api/may_change.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import type { ModulePlace } from './module_dialog.tsx'

type Props = {
  title: string
  /** Object of its button's label, such as 'the backend'. */
  changes: string
  place: ModulePlace
  module: { enabled: boolean } | null
  /** Shown if the module is set. */
  children: ReactNode
  /** Shown if it is not. */
  without: ReactNode
  edit: (onClose: () => void) => ReactNode
}

/** One module of an edge or route, with the dialog that changes it. */
export function ModuleRow({ title, changes, place, module, children, without, edit }: Props) {
  const [isOpen, setOpen] = useState(false)
  const mayChange = useMayChange()
  return (
    <div className="module">
      <h4>{title}</h4>
      <div>
        {module ? (
          <>
            {children} {!module.enabled && <Badge tone="warned">Off</Badge>}
          </>
        ) : (
          without
        )}
      </div>
      {mayChange && (
        <Button kind="quiet" isSmall aria-label={`Change ${changes} of ${place.name}`} onPress={() => setOpen(true)}>
          Change
        </Button>
      )}
      {isOpen && edit(() => setOpen(false))}
    </div>
  )
}
