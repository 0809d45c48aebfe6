import { type ReactNode, useState } from 'react'
import { Field } from './field.tsx'
import { FormDialog } from './form_dialog.tsx'

type Props = {
  title: string
  /** Name that must be typed to confirm, for resources that cannot be restored and that others may depend on. */
  typeToConfirm?: string
  action: string
  /** Set until it is known what else would be deleted. */
  isWaiting?: boolean
  canDraft?: boolean
  children: ReactNode
  act: () => Promise<unknown>
  onDone: () => void | Promise<void>
  onClose: (isSent: boolean) => void
}

export function Confirm(props: Props) {
  const { title, typeToConfirm, action, isWaiting, canDraft, children, act, onDone, onClose } = props
  const [typed, setTyped] = useState('')
  return (
    <FormDialog
      title={title}
      action={action}
      kind="danger"
      isReady={typeToConfirm === undefined || typed.trim() === typeToConfirm}
      isWaiting={isWaiting}
      canDraft={canDraft}
      save={act}
      onSaved={onDone}
      onClose={onClose}
    >
      {children}
      {typeToConfirm !== undefined && (
        <Field label={`Type ${typeToConfirm} to confirm`} value={typed} onChange={setTyped} autoComplete="off" />
      )}
    </FormDialog>
  )
}
