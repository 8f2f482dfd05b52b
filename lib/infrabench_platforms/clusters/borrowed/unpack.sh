# Unpack $3.tar in the store $1 as the folder $3, whole or not at all; older folders of the same part $2 go.
set -eu
store=$1 part=$2 name=$3
rm -rf "$store/$name.part"
mkdir -p "$store/$name.part"
tar -xf "$store/$name.tar" -C "$store/$name.part"
chmod 755 "$store/$name.part"
sync -f "$store/$name.part"
mv "$store/$name.part" "$store/$name"
rm "$store/$name.tar"
for old in "$store/$part"-????????????????; do
  [ "$old" = "$store/$name" ] || rm -rf "$old"
done
