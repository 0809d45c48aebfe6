import { type ReactNode, useState } from 'react'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Field } from './field.tsx'
import { ProblemNote } from './problem.tsx'

type Props = {
  title: string
  /** What it is called: to be typed when what goes cannot be brought back and somebody may depend on it. */
  typeToConfirm?: string
  action: string
  children: ReactNode
  isPending: boolean
  error: unknown
  onConfirm: () => void
  onClose: () => void
}

export function Confirm({ title, typeToConfirm, action, children, isPending, error, onConfirm, onClose }: Props) {
  const [typed, setTyped] = useState('')
  const isConfirmed = typeToConfirm === undefined || typed.trim() === typeToConfirm
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (isConfirmed) onConfirm()
        }}
      >
        {children}
        {typeToConfirm !== undefined && (
          <Field label={`Type ${typeToConfirm} to confirm`} value={typed} onChange={setTyped} autoComplete="off" />
        )}
        {error !== null && error !== undefined && <ProblemNote error={error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="danger" type="submit" isDisabled={!isConfirmed} isPending={isPending}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
