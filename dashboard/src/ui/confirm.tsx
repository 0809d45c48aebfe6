import { type ReactNode, useState } from 'react'
import { Field } from './field.tsx'
import { FormDialog } from './form_dialog.tsx'

type Props = {
  title: string
  /** A name to be typed when the thing cannot be brought back and others may depend on it. */
  typeToConfirm?: string
  action: string
  /** While it is not known yet what else would go. */
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
