package lakehouse;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Creates each entry of a Delta log in S3 only if it does not exist yet, so that several writers lose no commit.
 *
 * <p>The store decides: the request has the condition {@code If-None-Match: *}. If the answer is lost, the entry is
 * read: its bytes are those of the writer or of another one, since each commit has a random number. An entry is whole
 * or absent. Checkpoint pointers, which may be replaced, are written without the condition.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    private static final String CONDITION = "fs.option.create.conditional.overwrite";
    private static final int ATTEMPTS = 3;
    private static final long PAUSE_MILLIS = 200;

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        byte[] entry = encode(actions);
        FileSystem files = path.getFileSystem(configuration);
        if (overwrite.booleanValue()) {
            put(files.createFile(path).overwrite(true), entry);
        } else {
            create(files, path, entry);
        }
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    /** A failed request is repeated only if the entry does not exist: a store may refuse one during another. */
    private static void create(FileSystem files, Path path, byte[] entry) throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                put((FSDataOutputStreamBuilder) files.createFile(path).overwrite(true).must(CONDITION, true), entry);
                return;
            } catch (IOException failure) {
                byte[] stored = readAfter(failure, files, path);
                if (stored != null && Arrays.equals(stored, entry)) {
                    return;
                }
                if (stored != null) {
                    throw new FileAlreadyExistsException(path.toString());
                }
                if (attempt == ATTEMPTS || isInterruption(failure)) {
                    throw failure;
                }
                pause(attempt);
            }
        }
    }

    /** A request that timed out is of the same class as one that a person interrupted, but can be repeated. */
    private static boolean isInterruption(IOException failure) {
        return failure instanceof InterruptedIOException && !(failure instanceof SocketTimeoutException);
    }

    private static void pause(int attempt) throws IOException {
        try {
            Thread.sleep(PAUSE_MILLIS * attempt);
        } catch (InterruptedException interruption) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted between two attempts");
        }
    }

    /** The entry that is stored after a failure; if it cannot be read, the failure is the one to report. */
    private static byte[] readAfter(IOException failure, FileSystem files, Path path) throws IOException {
        try {
            return read(files, path);
        } catch (IOException unreadable) {
            failure.addSuppressed(unreadable);
            throw failure;
        }
    }

    private static void put(FSDataOutputStreamBuilder request, byte[] entry) throws IOException {
        FSDataOutputStream output = (FSDataOutputStream) request.build();
        output.write(entry);
        output.close();
    }

    private static byte[] read(FileSystem files, Path path) throws IOException {
        FSDataInputStream input;
        try {
            input = files.open(path);
        } catch (FileNotFoundException absent) {
            return null;
        }
        try {
            return input.readAllBytes();
        } finally {
            input.close();
        }
    }

    private static byte[] encode(Iterator<String> actions) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            bytes.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            bytes.write('\n');
        }
        return bytes.toByteArray();
    }
}
