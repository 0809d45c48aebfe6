import type { ReactNode } from 'react'
import { useRefresh } from '../../api/queries.ts'
import { FormDialog } from '../../ui/form_dialog.tsx'

type Props = {
  title: string
  wide?: boolean
  action?: string
  isDirty: boolean
  isReady?: boolean
  save: () => Promise<unknown>
  onClose: () => void
  children: ReactNode
}

/** The frame of every backend form; saving refreshes all lists of backends. */
export function BackendDialog({ action = 'Save backend', onClose, ...form }: Props) {
  const refresh = useRefresh()
  return (
    <FormDialog
      {...form}
      action={action}
      canDraft
      onSaved={async () => {
        await refresh('/backends')
        onClose()
      }}
      onClose={onClose}
    />
  )
}
